"""One package of Debian is unpacked without being installed."""

from pathlib import Path

import pytest

from core.process import CommandFailed
from images.build import debian

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


def test_it_comes_from_the_machines_own_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = _programs(tmp_path, monkeypatch, "touch numbers_1_all.deb")
    debian.unpack("numbers", tmp_path / "unpacked")
    assert [path.name for path in (tmp_path / "unpacked").iterdir()] == [
        "unpacked-numbers_1_all.deb"
    ]
    assert len(calls.read_text().splitlines()) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"bin", "calls", "unpacked"}


def test_lists_of_its_own_are_fetched_where_the_machines_do_not_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = _programs(tmp_path, monkeypatch, "exit 100")
    debian.unpack("numbers", tmp_path / "unpacked")
    assert [line.split()[-1] for line in calls.read_text().splitlines()] == [
        "numbers",
        "update",
        "numbers",
    ]
    assert list((tmp_path / "unpacked").iterdir())


def test_what_apt_said_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _programs(tmp_path, monkeypatch, "exit 100")
    (tmp_path / "bin" / "apt-get").write_text("#!/bin/sh\necho no such package >&2\nexit 100\n")
    with pytest.raises(CommandFailed, match="failed with 100: no such package"):
        debian.unpack("numbers", tmp_path / "unpacked")
