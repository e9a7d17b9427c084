"""Keeps other users of the machine from the ports that Pulumi's CLI and its plugins listen on.

Root's CLI and all that it starts are in a control group of their own, and guard.nft refuses what
anybody else sends to its sockets. The rules are there first, so no port is open without them.
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

from core.process import CommandFailed, run

_NAME = "slipway-cli-"
"""What groups and tables are called, with the process id of their CLI after it."""
_UNGUARDED = """\
slipway: other users of this machine can use Pulumi while it runs: {}
docs/security.md, "On a machine that others use", has what is needed.
"""


def command(program: Path) -> list[str]:
    """Return how to start the CLI, from the checkout: the process becomes `program`."""
    return [sys.executable, "-m", "scripts.guard", str(program)]


def start(arguments: list[str]) -> None:
    """Become a program whose ports no other user can connect to."""
    # Python ignores it, and so would the program; Ctrl-C ends this as it would end the program.
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
    os.execv(arguments[0], arguments)  # noqa: S606  # a shell would be one more process


def sweep() -> None:
    """Remove groups and tables of CLIs that have ended; they stay while a process of one runs."""
    if not _is_roots():
        return
    left = set()
    with suppress(OSError, CommandFailed):
        for directory, names, _ in os.walk(_tree(), topdown=False):
            for name in filter(_has_ended, names):
                try:
                    Path(directory, name).rmdir()
                except OSError:
                    left.add(name)
        tables = re.findall(rf"{_NAME}\d+", _nft("list", "tables", "inet"))
        for name in filter(_has_ended, set(tables) - left):
            # Another command may have removed it meanwhile.
            _nft("-f", "-", text=f"table inet {name}\ndelete table inet {name}\n")


def _has_ended(name: str) -> bool:
    number = name.removeprefix(_NAME)
    return number != name and not Path("/proc", number).exists()


def _enter() -> None:
    """Join a new group, below the one that this process is in (cgroups(7)), with its rules."""
    name, tree = f"{_NAME}{os.getpid()}", _tree()
    here = re.search(r"^0::/(.*)$", Path("/proc/self/cgroup").read_text(), re.MULTILINE)
    group = tree / (here[1] if here else "") / name
    group.mkdir(exist_ok=True)
    # Wherever version 2 is mounted, this is what nft's paths begin at.
    path, level = group.relative_to("/sys/fs/cgroup"), len(group.relative_to(tree).parts)
    rules = Template(Path(__file__).with_name("guard.nft").read_text())
    try:
        _nft("-f", "-", text=rules.substitute(name=name, group=path, level=level))
        (group / "cgroup.procs").write_text("0")
    except BaseException:
        group.rmdir()
        raise


def _prove() -> None:
    """Raise unless another user is refused."""
    # The kernel takes the user who made a socket for its sender.
    os.seteuid(65534)
    try:
        stranger = socket.socket()
    finally:
        os.seteuid(0)
    with stranger, socket.create_server(("127.0.0.1", 0)) as listener:
        stranger.settimeout(5)
        if stranger.connect_ex(listener.getsockname()) != errno.ECONNREFUSED:
            raise OSError("nftables' rules have no effect, as in some containers")


def _is_roots() -> bool:
    return sys.platform == "linux" and os.geteuid() == 0


def _nft(*arguments: str, text: str = "") -> str:
    program = shutil.which("nft", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    if program is None:
        raise OSError("nft is not on PATH: install nftables")
    return run(program, *arguments, text=text)


def _tree() -> Path:
    """Where version 2 of control groups is mounted, alone or beside version 1."""
    mounts = os.fsdecode(Path("/proc/self/mounts").read_bytes())  # names may be no UTF-8
    if (found := re.search(r"^\S+ (\S+) cgroup2 ", mounts, re.MULTILINE)) is None:
        raise OSError("no control groups of version 2 are mounted")
    return Path(found[1])


if __name__ == "__main__":
    start(sys.argv[1:])
