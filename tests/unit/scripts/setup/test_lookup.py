"""What is on the machine is taken when it is new enough, and never mistaken for something else."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from core.paths import CHECKOUT
from scripts.setup import lookup
from scripts.setup.lookup import find
from scripts.setup.record import Entry, Problem
from scripts.setup.tools import MODULES, Range, Tool
from tests.unit.shell_program import shell_program

RUNC = Tool("runc", Range("1.1", below="2"), package="runc")
Program = Callable[[str, str], Path]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Makes a program DIRECTORY/NAME that prints a version; its directory comes last on PATH."""
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(lookup, "_SYSTEM", ())

    def make(place: str, version: str) -> Path:
        name = Path(place).name
        path = shell_program(tmp_path / place, f"echo {name} version {version}")
        monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{path.parent}")
        return path

    return make


def why(tool: Tool, **found: Entry) -> str:
    """Why a tool is not taken."""
    problem = find(tool, found)
    assert isinstance(problem, Problem)
    return problem.why


def test_a_program_that_is_new_enough_is_taken(program: Program) -> None:
    path = program("bin/runc", "1.1.5")
    stat = path.stat()
    assert find(RUNC, {}) == Entry(
        str(path), "1.1.5", "on PATH", RUNC.stamp, stat.st_size, stat.st_mtime_ns
    )


def test_an_old_program_does_not_hide_a_newer_one_behind_it(program: Program) -> None:
    program("old/runc", "1.0.9")
    new = program("new/runc", "1.2.0")
    assert getattr(find(RUNC, {}), "path", None) == str(new)


def test_every_program_that_will_not_do_is_named_with_what_would(program: Program) -> None:
    old, new = program("old/runc", "1.0.9"), program("new/runc", "2.0.0")
    reason = why(RUNC)
    assert f"{old} is version 1.0.9; required: 1.1 or newer, below 2" in reason
    assert f"{new} is version 2.0.0" in reason


def test_what_is_missing_or_put_on_path_by_set_up_itself_is_not_on_path(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    program("bin/other", "1.1.5")
    assert why(RUNC) == "not on PATH"
    program("slipway/bin/runc", "1.1.5")
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{CHECKOUT}/.venv/bin")
    assert why(RUNC) == "not on PATH"
    assert why(Tool("python", Range("3"))) == "not on PATH"


def test_a_program_without_a_version_of_its_own_is_never_taken_from_path(program: Program) -> None:
    program("bin/pause", "3.10")
    assert "can't print its version" in why(Tool("pause", module=MODULES["pause"]))


def test_a_program_that_is_only_released_may_be_put_into_its_place_by_hand(
    program: Program, cache: Path
) -> None:
    released, built = Tool("released"), Tool("pause", module=MODULES["pause"])
    assert isinstance(lookup.find(released, {}), Problem)
    for name in ("released", "pause"):
        program(f"slipway/bin/{name}", "")
    found = lookup.find(released, {})
    assert isinstance(found, Entry)
    assert (found.path, found.origin) == (f"{cache}/bin/released", "installed manually")
    assert isinstance(lookup.find(built, {}), Problem)


def test_a_part_is_taken_only_beside_a_whole_that_is_on_path(program: Program) -> None:
    part = Tool("pulumi-language-python", beside="pulumi")
    pulumi = program("dist/pulumi", "3.250.0")
    beside = program("dist/pulumi-language-python", "3.250.0")
    program("stray/pulumi-language-python", "3.1.0")
    on_path = Entry.from_file(pulumi, "3.250.0", "on PATH", "")
    found = find(part, {"pulumi": on_path})
    assert isinstance(found, Entry)
    assert (found.path, found.version) == (str(beside), "3.250.0")
    built = Entry.from_file(pulumi, "3.250.0", "built from its Go module", "")
    assert why(part, pulumi=built) == "pulumi, which it belongs to, is not on PATH"
    beside.unlink()
    assert why(part, pulumi=on_path) == f"not next to {pulumi}"


def cni(*directories: Path) -> Tool:
    return Tool("cni", Range("1.0"), directories=directories, holds=("ptp", "portmap"))


def test_a_directory_counts_only_with_all_its_programs(program: Program, tmp_path: Path) -> None:
    program("partial/ptp", "1.1.1")
    whole = program("whole/ptp", "1.2.0").parent
    program("whole/portmap", "1.2.0")
    found = find(cni(tmp_path / "partial", whole), {})
    assert isinstance(found, Entry)
    assert (found.path, found.version) == (str(whole), "1.2.0")
    assert why(cni(tmp_path / "partial")) == (f"ptp, portmap are not all in {tmp_path / 'partial'}")


def test_a_directory_that_is_too_old_is_refused_with_its_version(program: Program) -> None:
    old = program("old/ptp", "0.9.1").parent
    program("old/portmap", "0.9.1")
    assert why(cni(old)) == f"{old} is version 0.9.1; required: 1.0 or newer"
