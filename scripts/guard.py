"""Deny other users of this machine access to the ports of Pulumi's CLI and its plugins.

If root runs the CLI, it and its child processes are in a separate cgroup, and rules in guard.nft
reject other users' connections to their sockets. The rules are loaded before any port is open.
"""

import errno
import os
import re
import shutil
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from string import Template

from core.problem import raised
from core.process import CommandFailed, run

_NAME = "slipway-cli-"
"""The prefix of cgroup and nftables table names; the CLI's process ID follows."""
_UNGUARDED = """\
slipway: other users of this machine can use Pulumi while it is running: {}
docs/security.md, "On a machine that others use", lists the requirements.
"""


def command(program: Path) -> list[str]:
    """Return the command, to be run in the checkout, that sets up the guard and runs `program`."""
    return [sys.executable, "-m", "scripts.guard", str(program)]


def start(arguments: list[str]) -> None:
    """Replace this process with a program to whose ports other users can't connect."""
    # Python ignores SIGPIPE, and the program would inherit that. Ctrl-C must end this process.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if _is_roots():
        try:
            sweep()
            _enter()
            _prove()
        except (OSError, ValueError, CommandFailed) as error:
            print(_UNGUARDED.format(error), end="", file=sys.stderr, flush=True)
    os.execv(arguments[0], arguments)  # noqa: S606  # without a shell's extra process


def sweep() -> None:
    """Remove the cgroups and tables of finished CLIs unless processes are still running in them."""
    if not _is_roots():
        return
    left = set()
    with suppress(OSError, CommandFailed):
        for directory, names, _ in os.walk(_tree(), topdown=False):
            for name in filter(_has_ended, names):
                if raised(Path(directory, name).rmdir, OSError) is not None:
                    left.add(name)
        tables = re.findall(rf"{_NAME}\d+", _nft("list", "tables", "inet"))
        for name in filter(_has_ended, set(tables) - left):
            # Declared first, since another command may have removed the table by now.
            _nft("-f", "-", text=f"table inet {name}\ndelete table inet {name}\n")


def _has_ended(name: str) -> bool:
    number = name.removeprefix(_NAME)
    return number != name and not Path("/proc", number).exists()


def _enter() -> None:
    """Create a cgroup below this process's own (cgroups(7)), load its rules, and move into it."""
    name, tree = f"{_NAME}{os.getpid()}", _tree()
    here = re.search(r"^0::/(.*)$", Path("/proc/self/cgroup").read_text(), re.MULTILINE)
    group = tree / (here[1] if here else "") / name
    group.mkdir(exist_ok=True)
    # nft's paths are relative to this directory, wherever cgroup v2 is mounted.
    path, level = group.relative_to("/sys/fs/cgroup"), len(group.relative_to(tree).parts)
    rules = Template(Path(__file__).with_name("guard.nft").read_text())
    try:
        _nft("-f", "-", text=rules.substitute(name=name, group=path, level=level))
        (group / "cgroup.procs").write_text("0")
    except BaseException:
        group.rmdir()
        raise


def _prove() -> None:
    """Raise `OSError` unless another user's connection is refused."""
    # The kernel attributes a connection to the user who created its socket.
    os.seteuid(65534)
    try:
        stranger = socket.socket()
    finally:
        os.seteuid(0)
    with stranger, socket.create_server(("127.0.0.1", 0)) as listener:
        stranger.settimeout(5)
        if stranger.connect_ex(listener.getsockname()) != errno.ECONNREFUSED:
            raise OSError("nftables rules have no effect here, as is the case in some containers")


def _is_roots() -> bool:
    return sys.platform == "linux" and os.geteuid() == 0


def _nft(*arguments: str, text: str = "") -> str:
    program = shutil.which("nft", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    if program is None:
        raise OSError("nft is not on PATH: install nftables")
    return run(program, *arguments, text=text)


def _tree() -> Path:
    """Return the mount point of cgroup v2, or raise `OSError` if it is not mounted."""
    mounts = os.fsdecode(Path("/proc/self/mounts").read_bytes())  # names may not be UTF-8
    if (match := re.search(r"^\S+ (\S+) cgroup2 ", mounts, re.MULTILINE)) is None:
        raise OSError("cgroup v2 is not mounted")
    return Path(match[1])


if __name__ == "__main__":
    start(sys.argv[1:])
