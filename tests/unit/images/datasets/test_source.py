"""A download is complete, or the reason is reported."""

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from images.datasets.dataset import NotAvailable, download
from tests.doubles.serving import in_background
from tests.unit.images.objects import Listener

_CONTENT = b"pictures" * 1000


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    served = tmp_path / "served"
    served.mkdir()
    (served / "file").write_bytes(_CONTENT)
    server = ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(served))
    )
    with in_background(server):
        yield f"http://127.0.0.1:{server.server_port}"


def test_what_was_published_is_written(address: str, tmp_path: Path) -> None:
    download(f"{address}/file", tmp_path / "new" / "file", Listener())
    assert (tmp_path / "new" / "file").read_bytes() == _CONTENT


def test_an_address_that_cannot_be_read_is_named_with_the_reason(
    address: str, tmp_path: Path
) -> None:
    nobody = "http://127.0.0.1:9/file"
    for url, reason in ((f"{address}/nothing", "404"), (nobody, f"{nobody}: .*[Rr]efused")):
        with pytest.raises(NotAvailable, match=reason):
            download(url, tmp_path / "file", Listener())


def test_it_stops_when_the_person_asks(address: str, tmp_path: Path) -> None:
    listener = Listener()
    listener.cancelled.set()
    with pytest.raises(InterruptedError):
        download(f"{address}/file", tmp_path / "file", listener)
