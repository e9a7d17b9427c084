"""What is on the machine is taken when it is new enough, and never mistaken for something else."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import toolchain
from core.paths import CHECKOUT
from scripts.setup import lookup, record
from scripts.setup.lookup import find
from scripts.setup.record import Entry, Problem
from scripts.setup.tools import MODULES, Range, Tool, tools_of
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


def test_the_first_program_that_will_do_is_taken_and_all_that_will_not_are_named(
    program: Program,
) -> None:
    old, new = program("old/runc", "1.0.9"), program("new/runc", "2.0.0")
    reason = why(RUNC)
    assert f"{old} is version 1.0.9; required: 1.1 or newer, below 2" in reason
    assert f"{new} is version 2.0.0" in reason
    right = program("right/runc", "1.1.5")
    assert find(RUNC, {}) == Entry.from_file(right, "1.1.5", "on PATH", RUNC.stamp)


def test_what_is_missing_or_put_on_path_by_set_up_itself_is_not_on_path(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    program("bin/other", "1.1.5")
    assert why(RUNC) == "not on PATH"
    program("slipway/bin/runc", "1.1.5")
    (program("another/scripts/bin/runc", "1.1.5").parents[1] / "guard.py").touch()
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{CHECKOUT}/.venv/bin")
    assert why(RUNC) == "not on PATH"
    assert why(Tool("python", Range("3"))) == "not on PATH"


def test_a_program_without_a_version_is_taken_only_if_released_and_put_in_place_by_hand(
    program: Program, cache: Path
) -> None:
    released, built = Tool("released"), Tool("pause", module=MODULES["pause"])
    for name in ("released", "pause"):
        program(f"bin/{name}", "3.10")
        assert "can't print its version" in why(Tool(name))
        program(f"slipway/bin/{name}", "")
    found = find(released, {})
    assert isinstance(found, Entry)
    assert (found.path, found.origin) == (f"{cache}/bin/released", "installed manually")
    assert "can't print its version" in why(built)
    path = Path(found.path)
    record.save({"released": Entry.from_file(path, "v1", "release", "of an older checkout")})
    assert why(released) == f"{path} is for another version of Slipway"
    record.save({})
    path.chmod(0o644)
    assert why(released) == f"{path} is not executable; run `chmod +x {path}`"


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


def test_a_directory_counts_only_with_all_its_programs_in_a_version_that_will_do(
    program: Program, tmp_path: Path
) -> None:
    def cni(*names: str) -> Tool:
        directories = tuple(tmp_path / name for name in names)
        return Tool("cni", Range("1.0"), directories=directories, holds=("ptp", "portmap"))

    program("partial/ptp", "1.1.1")
    for place, version in (("whole", "1.2.0"), ("old", "0.9.1")):
        program(f"{place}/ptp", version)
        program(f"{place}/portmap", version)
    found = find(cni("partial", "whole"), {})
    assert isinstance(found, Entry)
    assert (found.path, found.version) == (str(tmp_path / "whole"), "1.2.0")
    assert why(cni("partial")) == f"ptp, portmap are not all in {tmp_path / 'partial'}"
    assert why(cni("old")) == f"{tmp_path / 'old'} is version 0.9.1; required: 1.0 or newer"


@pytest.mark.parametrize(
    ("version", "will_do"),
    [("v1.35.4-dispatcher", False), ("v1.36.0", True), ("1.38.9", True), ("v1.39.0", False)],
)
def test_kubectl_is_within_one_minor_of_the_api_server(version: str, will_do: bool) -> None:
    accepts = next(tool.accepts for tool in tools_of(None) if tool.name == "kubectl")
    assert accepts is not None
    assert (version in accepts) is will_do


@given(st.tuples(*[st.integers(0, 99)] * 3))
def test_a_version_is_compared_by_its_numbers_and_not_as_text(numbers: tuple[int, ...]) -> None:
    later = ".".join(map(str, (*numbers[:2], numbers[2] + 1)))
    text = ".".join(map(str, numbers))
    assert later in Range(text)
    assert text in Range(text)
    assert text not in Range("0", below=text)
    assert text not in Range(later)


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u3", "1.6.20"),
        ("ip utility, iproute2-6.1.0, libbpf 1.1.2", "6.1.0"),
        ("1.9-3", "1.9"),
        ("no version here", None),
    ],
)
def test_a_version_is_the_first_printed(said: str, version: str | None, tmp_path: Path) -> None:
    # Some print it on standard error and exit 1.
    program = shell_program(tmp_path / "program", f"cat >&2 <<'end'\n{said}\nend\nexit 1")
    assert lookup.version_of(program, "--version") == version


def test_a_program_that_hangs_or_does_not_run_has_no_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lookup.version_of(tmp_path / "nothing") is None
    monkeypatch.setattr(lookup, "_SECONDS", 0.2)
    assert lookup.version_of(shell_program(tmp_path / "program", "exec sleep 20")) is None


@pytest.mark.usefixtures("cache")
def test_a_record_holds_until_the_file_or_the_demand_changes(tmp_path: Path) -> None:
    program = tmp_path / "runc"
    program.write_text("one")
    entries = {"runc": Entry.from_file(program, "1.1.5", "on PATH", RUNC.stamp)}
    record.save(entries)
    assert record.load() == entries
    assert record.unchanged(entries, (RUNC,)) == entries
    assert toolchain.tool("runc") == toolchain.Tool("runc", program, "1.1.5")
    assert record.unchanged(entries, (Tool("runc", Range("1.2")),)) == {}
    program.write_text("another")
    assert record.unchanged(entries, (RUNC,)) == {}
    program.unlink()
    assert record.unchanged(entries, (RUNC,)) == {}


@pytest.mark.parametrize("content", ["{", "[]", '{"tools": {"runc": {"path": "/x"}}}'])
def test_a_record_that_cannot_be_read_is_as_none(content: str) -> None:
    toolchain.record().parent.mkdir()
    toolchain.record().write_text(content)
    assert record.load() == {}
