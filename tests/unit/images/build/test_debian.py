"""Debian's packages: those of one day, and one that is unpacked without being installed."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from core.process import CommandFailed
from images.build import debian
from tests.doubles.serving import in_background

_APT = """#!/bin/sh
echo "$*" >> {calls}
case "$*" in
    *Dir::State::Lists*update) ;;
    *Dir::State::Lists*download*) touch numbers_1_all.deb ;;
    *download*) {plain} ;;
    *) exit 2 ;;
esac
"""
_DPKG = '#!/bin/sh\ntouch "$3/unpacked-$(basename "$2")"\n'


def _programs(folder: Path, monkeypatch: pytest.MonkeyPatch, plain: str) -> Path:
    calls = folder / "calls"
    programs = folder / "bin"
    programs.mkdir()
    for name, text in (("apt-get", _APT.format(calls=calls, plain=plain)), ("dpkg-deb", _DPKG)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o700)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    return calls


def test_it_comes_from_the_machines_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = _programs(tmp_path, monkeypatch, "touch numbers_1_all.deb")
    debian.unpack("numbers", tmp_path / "unpacked")
    unpacked = [path.name for path in (tmp_path / "unpacked").iterdir()]
    assert unpacked == ["unpacked-numbers_1_all.deb"]
    assert len(calls.read_text().splitlines()) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"bin", "calls", "unpacked"}


def test_missing_lists_are_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = _programs(tmp_path, monkeypatch, "exit 100")
    debian.unpack("numbers", tmp_path / "unpacked")
    last = [line.split()[-1] for line in calls.read_text().splitlines()]
    assert last == ["numbers", "update", "numbers"]
    assert list((tmp_path / "unpacked").iterdir())


def test_a_failure_includes_apts_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _programs(tmp_path, monkeypatch, "exit 100")
    (tmp_path / "bin/apt-get").write_text("#!/bin/sh\necho no such package >&2\nexit 100\n")
    with pytest.raises(CommandFailed, match="failed with 100: no such package"):
        debian.unpack("numbers", tmp_path / "unpacked")


_DAY = "http://snapshot.debian.org/archive/debian/20261123T000000Z"


@pytest.fixture
def asked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Let a proxy stand for the internet: all that is asked of it, answered with one status."""
    lines: list[str] = []

    class Proxy(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            lines.append(self.path)
            self.send_response(request.param)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    debian.snapshot.cache_clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.server_port}")
    with in_background(server):
        yield lines
    debian.snapshot.cache_clear()


@pytest.mark.parametrize("asked", [200], indirect=True)
def test_a_suite_that_debian_changes_is_taken_as_it_was_on_one_day(asked: list[str]) -> None:
    assert debian.sources("forky") == [f"deb [check-valid-until=no] {_DAY} forky main"]
    assert debian.sources("forky") == debian.sources("forky")
    assert asked == [f"{_DAY}/dists/forky/InRelease"]


@pytest.mark.parametrize("asked", [404], indirect=True)
def test_where_that_day_cannot_be_had_the_machines_own_mirror_serves(asked: list[str]) -> None:
    assert debian.snapshot("forky") is None
    assert not [line for line in debian.sources("forky") if "snapshot" in line]
    assert asked


@pytest.mark.parametrize("asked", [200], indirect=True)
def test_a_released_suite_comes_from_its_mirror(asked: list[str]) -> None:
    assert debian.snapshot("trixie") is None
    assert asked == []


def test_a_build_has_both_names_of_the_shells_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "here")
    monkeypatch.setattr(debian, "_apt", lambda _name: "")
    one, none = "http://proxy:3128", "here"
    assert debian.proxies() == {
        "https_proxy": one, "HTTPS_PROXY": one, "no_proxy": none, "NO_PROXY": none,
    }  # fmt: skip
