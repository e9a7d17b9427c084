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
def test_a_program_starts_unguarded_and_root_alone_learns_why_and_what_to_do(
    is_roots: bool,
) -> None:
    """The program does not ignore what Python ignores."""
    finished = become("echo out; kill -PIPE $$", is_roots=is_roots)
    assert (finished.stdout, finished.returncode) == ("out\n", -13)
    if not is_roots:
        assert finished.stderr == ""
        return
    assert "other users of this machine can use Pulumi while it is running" in finished.stderr
    assert "install nftables" in finished.stderr
    assert 'docs/security.md, "On a machine that others use"' in finished.stderr
    assert "## On a machine that others use" in (CHECKOUT / "docs/security.md").read_text()


def test_the_program_is_the_process_that_was_started() -> None:
    """So whoever sends it a signal, or reads its number in the lock, means the CLI."""
    command = [*guard.command(Path("/bin/sh")), "-c", "echo $$"]
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert int(process.stdout.read()) == process.pid


def test_pulumi_by_hand_is_set_ups(tmp_path: Path) -> None:
    """It runs in the user's directory, with the user's words."""
    cli = shell_program(tmp_path / "tools" / "pulumi", 'echo "$PWD $@"')
    record = tmp_path / "slipway" / "toolchain.json"
    record.parent.mkdir()
    record.write_text(json.dumps({"tools": {"pulumi": {"path": str(cli), "version": "v1"}}}))
    path = exports({"PATH": os.defpath})["PATH"]
    finished = subprocess.run(
        ["/bin/sh", "-c", "pulumi up 'a b'"], cwd=tmp_path, timeout=60, check=True,
        env={"PATH": path, "XDG_CACHE_HOME": str(tmp_path)}, capture_output=True, text=True,
    )  # fmt: skip
    assert finished.stdout == f"{tmp_path} up a b\n"
