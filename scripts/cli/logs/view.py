"""What there is of a job's logs, in one order."""

import resource
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from jobs.logs.archive import Log, Run
from jobs.logs.lines import Cursor, Line
from scripts.cli.logs.lines import Printer, Said, joined, merged, printer
from scripts.cli.logs.target import Target


@dataclass(frozen=True)
class Options:
    """What to show.

    Args:
        rank: Of which rank; None for all.
        follow: Whether to go on until the run has ended.
    """

    rank: int | None = None
    follow: bool = True


@dataclass
class View:
    """Shows a job's logs.

    Args:
        target: Whose.
        printer: Where to.
        spool: A directory for what is fetched: a log may be larger than the memory.
        cursors: How far each container's log was printed, by its id.
    """

    target: Target
    printer: Printer
    spool: Path
    cursors: dict[str, Cursor] = field(default_factory=dict)

    def print(self, fetched: Run | None = None) -> None:
        """Print what is kept, and what was fetched besides."""
        for said in merged(self._logs(fetched)):
            self.printer.print(said)
        self.printer.out.flush()

    def kept(self, run_id: str) -> list[Log]:
        """Return what is kept of a run."""
        kept = [run for run in self.target.runs if run.id == run_id]
        return [log for run in kept for log in run.logs()]

    def _logs(self, fetched: Run | None) -> Iterator[Iterator[Said]]:
        """Yield each container's log, of all kept runs."""
        runs = {run.id: run for run in self.target.runs}
        if fetched is not None:
            runs[fetched.id] = fetched
        _allow_files(sum(len(run.logs()) for run in {*self.target.runs, *runs.values()}))
        for run_id, run in runs.items():
            kept = {log.path.name: log for log in self.kept(run_id)}
            more = {log.path.name: log for log in run.logs()} if run is fetched else {}
            for name in sorted(kept.keys() | more.keys()):
                log = kept.get(name) or more[name]
                if log.replica in self.target.replicas:
                    yield self._lines(run_id, log, more.get(name))

    def _lines(self, run_id: str, log: Log, more: Log | None) -> Iterator[Said]:
        if log.is_cut:
            name = self.printer.names[log.replica]
            self.printer.tell(f"{name}: the beginning was dropped, as the log grew too long")
        kept: Iterable[Line] = [] if log is more else log.lines()
        cursor = self.cursors.setdefault(log.container, Cursor())
        for line in joined(kept, [] if more is None else more.lines(), cursor):
            yield Said(line, log.replica, run_id, log.container)


@contextmanager
def shown(target: Target, stack: str, options: Options) -> Iterator[View]:
    """Yield a view of a job's logs, and say so when in the end it has printed nothing."""
    names = {replica: target.label(replica) for replica in target.replicas}
    printing = printer(names, raw=options.rank is not None)
    with tempfile.TemporaryDirectory(prefix="slipway-logs-") as spool:  # only its owner's
        yield View(target, printing, Path(spool))
    if not printing.has_printed:
        results = f"make results JOB={target.name} STACK={stack}"
        printing.tell(f"nothing was printed; `{results}` says how it ended")


def _allow_files(count: int) -> None:
    """Let this process have as many files open as there are logs, where the system does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * count + 256
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
