"""Shows the logs of a job for which its cluster has to be asked, and goes on while it runs."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from kubernetes.client.exceptions import ApiException

from jobs.api import JobApi, Unreachable, said
from jobs.logs.archive import Log, Run
from jobs.logs.containers import Container
from jobs.logs.follower import Follower
from jobs.logs.lines import Cursor, Line
from jobs.logs.recording import Recording
from scripts.cli.logs.find import containers, find, has_ended
from scripts.cli.logs.live import Live
from scripts.cli.logs.target import NoLogs, Target
from scripts.cli.logs.view import Options, View, shown
from scripts.cli.state import StackState

_FETCH_SECONDS = 60.0


def show(
    stack: str, state: StackState, job: str, options: Options, wanted: Collection[str]
) -> None:
    """Print the logs of a job, and go on while it runs.

    Args:
        stack: Its name.
        state: Its state, with secrets.
        job: The job's name.
        options: What to show.
        wanted: The jobs that the stack's file asks for.

    Raises:
        NoLogs: the stack has no such job or rank, or its logs can't be had.
    """
    try:
        with shown(find(stack, state, job, options.rank, wanted), stack, options) as view:
            api = view.target.api
            if api is None:
                view.print()
                return
            view.print(_fetched(view, api))
            if options.follow and not _is_over(view.target, api):
                Live(view.target, api, view.printer, view.cursors).run()
    except (ApiException, Unreachable) as error:
        raise NoLogs(f"The API server of {stack} does not show the logs: {said(error)}") from error


def _is_over(target: Target, api: JobApi) -> bool:
    return has_ended(api.get()) and all(each.ended for each in containers(target, api.pods()))


def _fetched(view: View, api: JobApi) -> Run:
    """Bring what is not in the archive, and is there by now, into the spool."""
    target, printer = view.target, view.printer
    run = Run(view.spool / (target.run_id or "run"))
    with Recording(run, target.topology, printer.tell) as recording:
        spooling = _Spool(recording, {log.path.name: log for log in view.kept(run.id)})
        trouble: list[Exception] = []
        follower = Follower(api, spooling, trouble=trouble.append)
        if not follower.finish(containers(target, api.pods()), _FETCH_SECONDS):
            why = f": {trouble[-1]}" if trouble else ""
            printer.tell(f"not all could be read within {_FETCH_SECONDS:g} s{why}")
    return run


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
