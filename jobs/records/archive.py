"""The archive of logs from a job's runs, on the machine that waits for them.

    <state>/runs/<stack>/<job>/<run_id>/run.json                  the run's topology
    <state>/runs/<stack>/<job>/<run_id>/<replica>-<container>.log one for each container
    <state>/runs/<stack>/<job>/<run_id>/complete                  exists once no log is missing
    <state>/runs/<stack>/<job>/<run_id>/timeline.jsonl            the run's observed events
    <state>/runs/<stack>/<job>/<run_id>.json                      stays: jobs/records/history.py

Logs are stored as the kubelet sends them, with a timestamp before each line; a # at the beginning
means that earlier lines were dropped. Only the owner can read them, as they may contain secrets.
"""

import json
import os
import re
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Literal

from core.files import write
from core.fitting import fitting
from core.paths import of_project, state_dir
from jobs.api.lines import LONGEST, NEVER, Cursor, Line, moment
from jobs.model.pytorchjob import Topology
from slipway.events import json_map
from slipway.termination import read

ABOUT = "run.json"
COMPLETE = "complete"
NOTE = "#"
_NAME = re.compile("[0-9]{1,9}-")
INTERRUPTED = "interrupted"
"""The value of `about` in the last timeline entry of a run that Ctrl-C deleted."""
_MOST_ENTRIES = 5000
"""The maximum number of timeline entries, enough for a thousand replicas that restart once."""
_FIELDS = {"time", "kind", "about", "text"}
Kind = Literal["condition", "container", "failure", "event", "warning", "end"]
Entry = dict[str, str]
"""An entry: `time` (RFC 3339, UTC, by the cluster's clock), `kind`, `about` (an object), `text`."""


@dataclass
class Log:
    """One container's recorded log, a file that may not exist."""

    path: Path

    def __post_init__(self) -> None:
        replica, _, self.container = self.path.stem.partition("-")
        self.replica = int(replica)

    @property
    def is_cut(self) -> bool:
        """True if the beginning was dropped because the log was too long."""
        with suppress(OSError), self.path.open("rb") as file:
            return file.read(1) == NOTE.encode()
        return False

    def lines(self, tail: int | None = None) -> Iterator[Line]:
        """Yield the log's complete lines, or those in its last `tail` bytes; none if unreadable."""
        with suppress(OSError), self.path.open("rb") as file:
            if tail is not None:
                file.seek(max(0, file.seek(0, os.SEEK_END) - tail))
            for raw in file:
                # A truncated first line has no timestamp, and is left out.
                line = Line.parse(raw[:-1].decode(errors="replace"))
                if raw.endswith(b"\n") and line is not None:
                    yield line

    def cursor(self) -> Cursor:
        """Return the position up to which the container's log has been read."""
        cursor = Cursor()
        # A line of LONGEST bytes may have tripled in size through replacement characters.
        cursor.see(self.lines(tail=4 * LONGEST))
        return cursor


def open_private(path: Path) -> BinaryIO:
    """Open a file for appending; if it is new, make it readable only by its owner."""
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "ab+")


@dataclass(frozen=True)
class Run:
    """The recorded logs from one run of a job, in a directory that may not exist."""

    directory: Path

    @property
    def id(self) -> str:
        return self.directory.name

    @property
    def topology(self) -> Topology | None:
        """The run's topology, or None if it was not written."""
        try:
            topology = Topology(**fitting(Topology, read(self.directory / ABOUT))[0])
        except TypeError:
            return None
        return topology if min(topology.replicas, topology.processes) > 0 else None

    @property
    def timeline(self) -> Path:
        return self.directory / "timeline.jsonl"

    @property
    def is_complete(self) -> bool:
        """True if all of the run's logs were read to the end."""
        return (self.directory / COMPLETE).exists()

    def describe(self, topology: Topology) -> None:
        write(self.directory / ABOUT, json.dumps(asdict(topology)), mode=0o600)

    def log(self, replica: int, container: str) -> Log:
        return Log(self.directory / f"{replica}-{container}.log")

    def logs(self) -> list[Log]:
        """Return the existing logs, in replica order."""
        logs = [Log(path) for path in self.directory.glob("*-*.log") if _NAME.match(path.name)]
        return sorted(logs, key=lambda log: (log.replica, log.container))


@dataclass(frozen=True)
class Archive:
    """The logs from all kept runs of one job, in a directory that may not exist."""

    directory: Path

    def run(self, run_id: str) -> Run:
        return Run(self.directory / run_id)

    def runs(self) -> list[Run]:
        """Return the runs that have a folder, oldest first."""
        runs = [Run(path) for path in self.directory.glob("*") if path.is_dir()]
        return sorted(runs, key=lambda run: by_time(run.id))

    def keep(self, run_ids: Collection[str]) -> None:
        """Delete the logs of all runs except `run_ids`, the attempts to keep."""
        for run in self.runs():
            if run.id not in run_ids:
                shutil.rmtree(run.directory, ignore_errors=True)

    def take(self, job: str, names: Iterable[str]) -> None:
        """Take over the archive under a job's former `names`, unless the job already has one."""
        component = self.directory.name.removesuffix(job)  # `training-`, or empty
        for name in names:
            with suppress(OSError):  # there is none with that name, or the job has its own
                self.directory.with_name(f"{component}{name}").rename(self.directory)

    def remove(self) -> None:
        """Delete the logs of all runs; their history stays until `make down`."""
        self.keep(())
        with suppress(OSError):
            self.directory.rmdir()


def by_time(run_id: str) -> list[str]:
    """Return a key that sorts run IDs by time: they begin with a name that the job had."""
    return run_id.split("-")[-3:]


def of_urn(urn: str) -> Archive:
    """Return the archive for the resource urn:pulumi:<stack>::<project>::<types>::<name>."""
    stack, _project, _types, name = urn.removeprefix("urn:pulumi:").split("::", 3)
    return of_job(stack, name)


def of_job(stack: str, job: str) -> Archive:
    """Return the archive for a stack's job."""
    return Archive(of_stack(stack) / _folder(job))


def jobs(stack: str) -> list[str]:
    """Return the names of a stack's jobs whose logs were kept."""
    archives = map(Archive, of_stack(stack).glob("*"))
    return sorted(archive.directory.name for archive in archives if archive.runs())


def of_stack(stack: str) -> Path:
    """Return the directory with the logs from a stack's jobs."""
    return state_dir() / "runs" / _folder(of_project(stack))


def _folder(name: str) -> str:
    """Return a safe folder name for a stack or job; Pulumi even allows `..` as a stack name."""
    return name.replace("/", "_") if name.strip(".") else name.replace(".", "_")


def entries(file: Path) -> list[Entry]:
    """Return a timeline's distinct entries, sorted by time; none if the file does not exist."""
    try:
        lines = dict.fromkeys(file.read_text(encoding="utf-8", errors="replace").splitlines())
    except OSError:
        return []
    # A kill may have left an incomplete line.
    maps = map(json_map, lines)
    valid = [each for each in maps if all(isinstance(each.get(name), str) for name in _FIELDS)]
    return sorted(valid, key=lambda each: each["time"])


@dataclass
class Timeline:
    """Writes the entries in one run's timeline; disk errors are ignored."""

    file: Path

    def __post_init__(self) -> None:
        # A process that resumes the wait sees the same entries again.
        self._known = {json.dumps(each) for each in entries(self.file)}

    def add(self, items: Iterable[Entry]) -> None:
        """Write the entries that have not been written yet."""
        lines = [line for line in dict.fromkeys(map(json.dumps, items)) if line not in self._known]
        new = lines[: max(0, _MOST_ENTRIES - len(self._known))]
        if not new:
            return
        self._known.update(new)
        with suppress(OSError), open_private(self.file) as file:
            # The newline comes first, as a kill may have left the last line incomplete.
            file.write("".join(f"\n{line}" for line in new).encode())


def entry(at: str | datetime | None, kind: Kind, about: str, text: str) -> Entry:
    """Return a timeline entry; the time `at` may be unknown."""
    when = at if isinstance(at, datetime) else moment(str(at))
    # The current time would make it a new entry each time it is observed.
    shown = "" if when == NEVER else f"{when.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    return {"time": shown, "kind": kind, "about": about, "text": text}
