"""One look at a job's logs: first what there is, then what comes."""

import resource
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jobs.api import JobApi
from jobs.logs.archive import Log, Run
from jobs.logs.containers import Container
from jobs.logs.follower import Follower
from jobs.logs.lines import Cursor, Line
from jobs.logs.recording import Recording
from scripts.stack.log.lines import Printer, Said, joined, merged
from scripts.stack.log.live import Live
from scripts.stack.log.target import Target, has_ended

_FETCH_SECONDS = 60.0


@dataclass
class View:
    """Shows a job's logs.

    Args:
        target: Whose.
        printer: Where to.
        spool: A directory for what is fetched: a log may be larger than the memory.
    """

    target: Target
    printer: Printer
    spool: Path
    _cursors: dict[str, Cursor] = field(default_factory=dict)

    def run(self, *, follow: bool) -> None:
        """Print until the end."""
        api = self.target.api
        fetched = Run(self.spool / (self.target.run_id or "run"))
        if api is not None:
            self._fetch(api, fetched)
        for said in merged(self._logs(fetched)):
            self.printer.print(said)
        self.printer.out.flush()
        if api is not None and follow and not self._is_over(api):
            Live(self.target, api, self.printer, self._cursors).run()

    def _is_over(self, api: JobApi) -> bool:
        return has_ended(api.get()) and not any(
            not each.ended for each in self.target.containers(api.pods())
        )

    def _fetch(self, api: JobApi, run: Run) -> None:
        """Bring what is not in the archive, and is there by now, into the spool."""
        with Recording(run, self.target.topology, self.printer.tell) as recording:
            spooling = _Spool(recording, {log.path.name: log for log in self._kept(run.id)})
            trouble: list[Exception] = []
            follower = Follower(api, spooling, trouble=trouble.append)
            if not follower.finish(self.target.containers(api.pods()), _FETCH_SECONDS):
                why = f": {trouble[-1]}" if trouble else ""
                self.printer.tell(f"not all could be read within {_FETCH_SECONDS:g} s{why}")

    def _kept(self, run_id: str) -> list[Log]:
        kept = [run for run in self.target.runs if run.id == run_id]
        return [log for run in kept for log in run.logs()]

    def _logs(self, fetched: Run) -> Iterator[Iterator[Said]]:
        """Yield each container's log, of all kept runs."""
        runs = {run.id: run for run in self.target.runs} | {fetched.id: fetched}
        _allow_files(sum(len(run.logs()) for run in (*self.target.runs, fetched)))
        for run_id in runs:
            kept = {log.path.name: log for log in self._kept(run_id)}
            more = {log.path.name: log for log in fetched.logs()} if run_id == fetched.id else {}
            for name in sorted(kept.keys() | more.keys()):
                log = kept.get(name) or more[name]
                if log.replica in self.target.replicas:
                    yield self._lines(run_id, log, more.get(name))

    def _lines(self, run_id: str, log: Log, more: Log | None) -> Iterator[Said]:
        if log.is_cut:
            name = self.printer.names[log.replica]
            self.printer.tell(f"{name}: the beginning was dropped, as the log grew too long")
        kept: Iterable[Line] = [] if log is more else log.lines()
        cursor = self._cursors.setdefault(log.container, Cursor())
        for line in joined(kept, [] if more is None else more.lines(), cursor):
            yield Said(line, log.replica, run_id, log.container)


@dataclass(frozen=True)
class _Spool:
    """Writes what comes behind the archive into the spool."""

    recording: Recording
    kept: dict[str, Log]

    def begin(self, container: Container, known: Cursor | None) -> Cursor:
        spooled = self.recording.open(container)
        if known is not None or spooled.stamp is not None:
            return spooled if known is None else known
        log = self.kept.get(f"{container.replica}-{container.id}.log")
        return Cursor() if log is None else log.cursor()

    def take(self, container: Container, lines: Sequence[Line]) -> None:
        self.recording.write(container, lines)

    def end(self, container: Container) -> None:
        self.recording.close(container)


def _allow_files(count: int) -> None:
    """Let this process have as many files open as there are logs, where the system does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * count + 256
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
