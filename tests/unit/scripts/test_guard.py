"""The CLI is itself behind its guard; tests/engine/test_ports.py shows what that keeps away."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.paths import CHECKOUT
from scripts import guard
from scripts.environment import exports
from tests.unit.shell_program import shell_program

_START = """
import signal, sys
from scripts import guard
guard._is_roots = lambda: {is_roots}
guard.shutil.which = lambda *_, **__: None
guard._enter = guard._nft
guard.start(sys.argv[1:])
"""


def become(script: str, *, is_roots: bool) -> "subprocess.CompletedProcess[str]":
    """Run a shell script behind the guard, on a machine without nft."""
    return subprocess.run(
        [sys.executable, "-c", _START.format(is_roots=is_roots), "/bin/sh", "-c", script],
        cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("is_roots", [True, False])
def test_a_program_starts_also_where_it_can_not_be_guarded(is_roots: bool) -> None:
    finished = become("echo out; exit 7", is_roots=is_roots)
    assert (finished.stdout, finished.returncode) == ("out\n", 7)


def test_root_alone_learns_why_it_can_not_be_guarded_and_what_to_do() -> None:
    message = become("true", is_roots=True).stderr
    assert "other users of this machine can use Pulumi while it is running" in message
    assert "install nftables" in message
    assert "docs/security.md" in message
    assert 'machine that others use"' in message
    assert "## On a machine that others use" in (CHECKOUT / "docs/security.md").read_text()
    assert become("true", is_roots=False).stderr == ""


def test_the_program_is_the_process_that_was_started() -> None:
    """So whoever sends it a signal, or reads its number in the lock, means the CLI."""
    command = [*guard.command(Path("/bin/sh")), "-c", "echo $$"]
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert int(process.stdout.read()) == process.pid


def test_the_program_does_not_ignore_what_python_ignores() -> None:
    assert become("kill -PIPE $$", is_roots=False).returncode == -13


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The environment of `make env`, with a CLI that prints its directory and arguments."""
    cli = shell_program(tmp_path / "tools" / "pulumi", 'echo "$PWD $@"')
    record = tmp_path / "slipway" / "toolchain.json"
    record.parent.mkdir()
    record.write_text(json.dumps({"tools": {"pulumi": {"path": str(cli), "version": "v1"}}}))
    return {"PATH": exports({"PATH": os.defpath})["PATH"], "XDG_CACHE_HOME": str(tmp_path)}


def by_hand(environment: dict[str, str], directory: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["/bin/sh", "-c", "pulumi up 'a b'"],
        cwd=directory, env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_pulumi_by_hand_is_set_ups(environment: dict[str, str], tmp_path: Path) -> None:
    assert by_hand(environment, tmp_path).stdout == f"{tmp_path} up a b\n"


def test_pulumi_by_hand_names_set_up(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "tools" / "pulumi").unlink()
    finished = by_hand(environment, tmp_path)
    assert finished.returncode == 1
    assert "no longer exists. Run `make setup`." in finished.stderr
