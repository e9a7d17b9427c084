"""Which versions will do, and how a program's own is read."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.setup import lookup
from scripts.setup.tools import Range, tools_of
from tests.unit.shell_program import shell_program

KUBECTL = next(tool for tool in tools_of(None) if tool.name == "kubectl").accepts


@pytest.mark.parametrize(
    ("version", "will_do"),
    [
        ("v1.35.4-dispatcher", False),
        ("v1.36.0", True),
        ("v1.37.2", True),
        ("1.38.9", True),
        ("v1.39.0", False),
        ("v2.0.0", False),
    ],
)
def test_kubectl_is_within_one_minor_of_the_api_server(version: str, will_do: bool) -> None:
    assert KUBECTL is not None
    assert (version in KUBECTL) is will_do


@given(st.tuples(*[st.integers(0, 99)] * 3))
def test_a_version_is_compared_by_its_numbers_and_not_as_text(numbers: tuple[int, ...]) -> None:
    later = ".".join(map(str, (*numbers[:2], numbers[2] + 1)))
    text = ".".join(map(str, numbers))
    assert later in Range(text)
    assert text in Range(text)
    assert text not in Range("0", below=text)
    assert text not in Range(later)


def test_a_range_says_what_it_allows() -> None:
    assert str(Range("1.1")) == "1.1 or newer"
    assert str(Range("1.1", below="2")) == "1.1 or newer, below 2"


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("Kubernetes v1.34.4", "1.34.4"),
        ("containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u3", "1.6.20"),
        ("containerd-shim-runc-v2:\n  Version:  1.7.24", "1.7.24"),
        ("ip utility, iproute2-6.1.0, libbpf 1.1.2", "6.1.0"),
        ("nftables v1.0.6 (Lester Gooch #5)", "1.0.6"),
        ("1.9-3", "1.9"),
        ("no version here", None),
        ("", None),
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
