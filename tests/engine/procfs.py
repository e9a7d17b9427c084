"""What the kernel says about processes; looking never changes anything."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

PROC = Path("/proc")


@dataclass(frozen=True)
class Process:
    """A process, told apart from a later one of the same number by when it started."""

    pid: int
    parent: int
    started: int  # in clock ticks since the machine's start
    namespace: int  # the inode of its network namespace
    places: str  # its program, working directory, root and command line
    cgroups: frozenset[Path]  # the directories of its control groups and of those above them

    @classmethod
    def of(cls, pid: int) -> Self | None:
        """Look at one process; None when it has ended (also a zombie has) or can't be looked at."""
        directory = PROC / str(pid)
        try:
            # The name in brackets may hold blanks; the state is the first field after it.
            fields = (directory / "stat").read_text().rpartition(")")[2].split()
            if fields[0] == "Z":
                return None
            command = (directory / "cmdline").read_bytes().replace(b"\0", b" ")
            links = [str((directory / name).readlink()) for name in ("exe", "cwd", "root")]
            return cls(
                pid=pid,
                parent=int(fields[1]),
                started=int(fields[19]),
                namespace=(directory / "ns/net").stat().st_ino,
                places=" ".join([*links, command.decode(errors="replace").strip()]),
                cgroups=frozenset(_cgroups((directory / "cgroup").read_text())),
            )
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return None  # it has ended, or is one of the machine's own that even root can't see

    @property
    def program(self) -> str:
        """The file name of its program, such as `etcd`."""
        return Path(self.places.split(" ", 1)[0]).name

    def runs_still(self) -> bool:
        """Return whether this very process is alive."""
        now = Process.of(self.pid)
        return now is not None and now.started == self.started


def everyone() -> list[Process]:
    """Return all processes but kernel threads, which have no program."""
    numbers = [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]
    return [process for process in map(Process.of, numbers) if process is not None]


def _cgroups(listing: str) -> list[Path]:
    """Return the directories that /proc/PID/cgroup names and those above them (v1 and v2)."""
    directories = []
    for line in listing.splitlines():
        _, controllers, name = line.split(":", 2)
        mount = Path("/sys/fs/cgroup") / controllers.removeprefix("name=")
        path = mount / name.lstrip("/")
        while path != mount:
            directories.append(path)
            path = path.parent
    return directories
