"""While root runs the CLI, no other user of the machine can connect to what it listens on."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from core.paths import CHECKOUT
from core.process import run
from scripts import guard
from tests.engine.awaiting import await_true

NOBODY = 65534
LIMIT = 30
_GUARD = (sys.executable, "-m", "scripts.guard")
_CLI = """
import socket, subprocess, sys, time
listening = [
    socket.create_server(("127.0.0.1", 0)),
    socket.create_server(("::1", 0), family=socket.AF_INET6),
    socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True),
]
if "plugin" not in sys.argv:
    plugin = subprocess.Popen([sys.executable, "-c", sys.argv[1], sys.argv[1], "plugin"])
print(*(each.getsockname()[1] for each in listening), flush=True)
time.sleep(600)
"""
"""Stands for the CLI and a plugin, and prints their ports."""


def swept() -> bool:
    """Whether no group of a CLI that has ended is left by the next one."""
    guard.sweep()
    walked = os.walk("/sys/fs/cgroup")
    return not [name for _, names, _ in walked for name in names if guard._has_ended(name)]


@pytest.fixture
def inside() -> Iterator[tuple[str, ...]]:
    """What to put in front of a command to run it in a network of the test's own."""
    script = "ip link set lo up && echo up && exec sleep 600"
    with subprocess.Popen(
        ["unshare", "--net", "sh", "-c", script], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "up\n"
            yield ("nsenter", f"--net=/proc/{process.pid}/ns/net")
            await_true(swept, LIMIT)
        finally:
            process.kill()


@contextmanager
def listening(*command: str) -> Iterator[tuple["subprocess.Popen[str]", list[int]]]:
    """A command that runs `_CLI`, and the ports of its two processes."""
    with subprocess.Popen(
        [*command, sys.executable, "-c", _CLI, _CLI],
        cwd=CHECKOUT, stdout=subprocess.PIPE, text=True, process_group=0,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(2)]
            yield process, [int(port) for line in lines for port in line.split()]
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def answering(ports: Iterable[int], inside: tuple[str, ...], user: int) -> list[int]:
    """Return those of the ports that a user can connect to, by IPv4 or IPv6."""
    as_user = ("setpriv", f"--reuid={user}", "--clear-groups", "bash", "-c")
    return [
        port
        for port in ports
        if any(
            subprocess.run(
                [*inside, *as_user, f"exec 3<>/dev/tcp/{host}/{port}"],
                stderr=subprocess.DEVNULL, timeout=LIMIT, check=False,
            ).returncode == 0
            for host in ("127.0.0.1", "::1")
        )
    ]  # fmt: skip


def tables(inside: tuple[str, ...]) -> str:
    return run(*inside, "nft", "list", "tables")


def test_no_port_of_roots_cli_answers_another_user(inside: tuple[str, ...]) -> None:
    """Nor those of what it starts; other programs' ports stay as they are."""
    with (
        listening(*inside, *_GUARD) as (_, ports),
        listening(*inside, *_GUARD) as (_, others),
        listening(*inside) as (_, open_to_all),
    ):
        guarded = [*ports, *others]
        assert len(set(guarded)) == 12
        assert answering(guarded, inside, 0) == guarded
        assert answering(guarded, inside, NOBODY) == []
        assert answering(open_to_all, inside, NOBODY) == open_to_all


def guarded_ports() -> set[int]:
    """The ports that processes in the groups of CLIs listen on."""
    inodes = set()
    found = [Path(at) for at, _, _ in os.walk("/sys/fs/cgroup") if "slipway-cli-" in at]
    for group in found:
        with suppress(OSError):
            for pid in (group / "cgroup.procs").read_text().split():
                inodes |= {str(link.readlink()) for link in Path("/proc", pid, "fd").iterdir()}
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {
        int(fields[1].rpartition(":")[2], 16)
        for fields in lines
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes
    }


def test_the_rules_stay_while_a_process_of_the_cli_runs_and_no_longer(
    inside: tuple[str, ...],
) -> None:
    """After a kill of the CLI, the next one removes them."""
    with listening(*inside, *_GUARD) as (cli, ports):
        cli.kill()
        cli.wait(LIMIT)
        sweep = (*inside, sys.executable, "-c", "from scripts import guard; guard.sweep()")
        run(*sweep, cwd=CHECKOUT)
        left = answering(ports, inside, 0)
        assert len(left) == 3, "its plugin's"
        assert f"slipway-cli-{cli.pid}" in tables(inside)
        assert answering(ports, inside, NOBODY) == []
        with suppress(ProcessLookupError):
            os.killpg(cli.pid, signal.SIGKILL)

        def cleared() -> bool:
            run(*sweep, cwd=CHECKOUT)
            return tables(inside) == ""

        await_true(cleared, LIMIT)


def test_a_command_leaves_no_rules_and_reports_those_without_effect(
    inside: tuple[str, ...], tmp_path: Path
) -> None:
    """`Cli.run` removes them, whatever the CLI's status; it runs in this test's own network."""
    program = tmp_path / "pulumi"
    program.write_text("#!/bin/sh\nnft list tables >&2; exit 7\n")
    program.chmod(0o755)
    finished = python(
        inside,
        "from pathlib import Path; from core import toolchain; from scripts.cli.backend import Cli;"
        f"toolchain.path = lambda _name: Path({str(program)!r}); print(Cli('dev').run('up'))",
    )
    assert finished.stdout == "7\n"
    assert "table inet slipway-cli-" in finished.stderr
    assert tables(inside) == ""
    # As in a container whose control groups have other levels than the kernel sees.
    finished = python(
        inside,
        "from scripts import guard; guard._enter = lambda: None; guard.start(['/bin/echo', 'ran'])",
    )
    assert finished.stdout == "ran\n"
    assert "rules have no effect" in finished.stderr


def python(inside: tuple[str, ...], script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*inside, sys.executable, "-c", script],
        cwd=CHECKOUT, capture_output=True, text=True, timeout=LIMIT, check=True,
    )  # fmt: skip
