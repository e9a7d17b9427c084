"""Debian's packages: those of one day, and one that is unpacked without being installed."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from core.process import CommandFailed
from images.build import debian
from images.build.kind_node import KindNode
from tests.doubles.serving import in_background
from tests.unit.shell_program import shell_program

_APT = """
case "$*" in
    *Dir::State::Lists*update) touch {lists} ;;
    *Dir::State::Lists*download*) test -e {lists} && touch numbers_1_all.deb ;;
    *) echo no such package >&2; exit 100 ;;
esac
"""


def test_missing_lists_are_fetched_and_a_failure_includes_apts_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs, unpacked = tmp_path / "bin", tmp_path / "unpacked"
    apt = shell_program(programs / "apt-get", _APT.format(lists=tmp_path / "lists"))
    shell_program(programs / "dpkg-deb", 'touch "$3/unpacked-$(basename "$2")"')
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    debian.unpack("numbers", unpacked)
    assert [path.name for path in unpacked.iterdir()] == ["unpacked-numbers_1_all.deb"]
    assert {path.name for path in tmp_path.iterdir()} == {"bin", "lists", "unpacked"}
    shell_program(apt, "echo no such package >&2\nexit 100")
    with pytest.raises(CommandFailed, match="failed with exit code 100: no such package"):
        debian.unpack("numbers", tmp_path / "again")


_DAY = "http://snapshot.debian.org/archive/debian/20261123T000000Z"


@contextmanager
def _internet(monkeypatch: pytest.MonkeyPatch, status: int) -> Iterator[list[str]]:
    """Let a proxy stand for the internet: all that is asked of it, answered with one status."""
    lines: list[str] = []

    class Proxy(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            lines.append(self.path)
            self.send_response(status)
            self.end_headers()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.server_port}")
    debian.snapshot.cache_clear()
    with in_background(server):
        yield lines
    debian.snapshot.cache_clear()


def test_a_suite_that_debian_changes_is_taken_as_it_was_on_one_day(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where that day can't be had, this machine's own mirror serves."""
    with _internet(monkeypatch, 200) as asked:
        assert debian.snapshot("trixie") is None
        assert asked == [], "a released suite comes from its mirror"
        assert debian.sources("forky") == [f"deb [check-valid-until=no] {_DAY} forky main"]
        assert debian.sources("forky") == debian.sources("forky")
        assert asked == [f"{_DAY}/dists/forky/InRelease"]
        monkeypatch.setattr(KindNode, "is_provided", lambda: False)
        monkeypatch.setattr(KindNode, "REGISTRY", "http://registry.invalid/v2/")
        assert KindNode.needed({}, Path("/none")) == (), "any answer of a proxy's will do"
    with _internet(monkeypatch, 404) as asked:
        assert debian.snapshot("forky") is None
        assert not [line for line in debian.sources("forky") if "snapshot" in line]
        assert asked
