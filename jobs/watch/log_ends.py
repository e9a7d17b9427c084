"""The end of each failed container's log, read before its pod is gone."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from kubernetes.client.exceptions import ApiException

from jobs.api import JobApi, Unreachable
from jobs.judge.exits import Exit, FailedInit
from jobs.judge.failure_report import LOG_LINES
from jobs.judge.first_failure import Failure
from jobs.judge.replica import Replica, replicas
from jobs.judge.run_state import RunState
from jobs.logs.archive import Run
from jobs.logs.follower import short_id
from jobs.spec.names import CONTAINER
from jobs.watch.stacks import before_stacks, stack_frames, waits_for_peers

_FETCHED = 20
"""Of so many failures: when all of 1,000 ranks fail, the rest are alike."""


@dataclass
class LogEnds:
    """What the containers of a run printed last.

    Args:
        api: Of the job.
        kept: Where full logs are kept, which win: what the API server has is of the latest start
            alone, and of the one before it. None where none are kept.
    """

    api: JobApi
    kept: Run | None
    _fetched: dict[str, list[str]] = field(default_factory=dict)

    def note(self, failed: Failure) -> bool:
        """Take a failed container's log; return whether its failure is new."""
        container = failed.exit.container_id
        if container in self._fetched:
            return False
        log = self._fetch(failed) if len(self._fetched) < _FETCHED else []
        self._fetched[container] = log or _left(failed.exit)
        return True

    def relevant(self, run: RunState, silent: Sequence[Replica]) -> list[str]:
        """Return the log that matters: of the cause's replica, otherwise of replica 0.

        Args:
            run: What was seen of it.
            silent: Who did not answer its peers, as `silent` returns it.
        """
        if len(silent) == 1:
            return self._before_dump(silent[0])
        if run.cause is not None:
            return self._of(run.cause) or self._fetch(run.cause)
        if (init := run.failed_init) is not None:
            return self._of_init(init)
        first = run.replicas.get(0)
        return self._before_dump(first) if first is not None and first.started else []

    def before(self, run: RunState) -> list[str]:
        """Return the log of the start before in the replica that failed, if that failed, too."""
        cause = run.cause
        if cause is None:
            return []
        number, finished = cause.replica.number, cause.finished
        before = [
            each
            for each in run.failures
            if each.replica.number == number and each.finished < finished
        ]
        return self._of(before[-1]) if before else []

    def stacks(self, run: RunState) -> dict[str, list[str]]:
        """Return where ranks that hang stood when they were stopped, by name; some don't report."""
        return {replica.ranks: frames for replica, frames in self._stood(run)}

    def silent(self, run: RunState) -> list[Replica]:
        """Return who did not answer its peers.

        By their failures; of a run that got nowhere without any, the only one that stood
        outside of torch while others waited in it. On GPUs a stack does not show that: a
        collective's call returns before its end.
        """
        gpus = any(each.gpus for each in run.replicas.values())
        is_shown = run.all_started and not run.failures and not gpus
        stood = self._stood(run) if is_shown else []
        apart = [replica for replica, frames in stood if not waits_for_peers(frames)]
        return apart if len(apart) == 1 < len(stood) else run.silent

    def _stood(self, run: RunState) -> list[tuple[Replica, list[str]]]:
        hanging = run.hanging[:_FETCHED]
        found = ((each, stack_frames(self._now(each))) for each in hanging)
        return [(replica, frames) for replica, frames in found if frames]

    def _before_dump(self, replica: Replica) -> list[str]:
        return list(before_stacks(self._now(replica)))[-LOG_LINES:]

    def _now(self, replica: Replica) -> list[str]:
        """Return the log of a replica's latest container, to its present end."""
        if self.kept is None or replica.container_id is None:
            return self._read(replica.name)
        log = self.kept.log(replica.number, short_id(replica.container_id))
        return [line.text for line in log.lines()]

    def _of_init(self, init: FailedInit) -> list[str]:
        # It may have been started again just then, and of those before the kubelet keeps one.
        logs = (
            self._read(init.pod, init.container, previous=previous)
            for previous in (init.again, not init.again)
        )
        return next(filter(None, logs), _left(init.exit))

    def _of(self, failed: Failure) -> list[str]:
        container = failed.exit.container_id
        if self.kept is not None:
            log = self.kept.log(failed.replica.number, short_id(container))
            if lines := [line.text for line in log.lines()][-LOG_LINES:]:
                return lines
        return self._fetched.get(container, [])

    def _fetch(self, failed: Failure) -> list[str]:
        log = self._read(failed.replica.name, previous=not self._is_latest(failed))
        # It may have been started again just then: what was read is the next one's.
        return log if self._is_latest(failed) else self._read(failed.replica.name, previous=True)

    def _is_latest(self, failed: Failure) -> bool:
        """Return whether the container that failed is still its replica's latest."""
        try:
            now = replicas(self.api.pods(), failed.replica.topology).get(failed.replica.number)
        except (ApiException, Unreachable):
            now = failed.replica
        latest = failed.replica if now is None else now
        return latest.container_id == failed.exit.container_id

    def _read(self, pod: str, container: str = CONTAINER, *, previous: bool = False) -> list[str]:
        try:
            text = self.api.log(pod, container, lines=LOG_LINES, previous=previous)
        except (ApiException, Unreachable):
            return []  # The pod or the container has gone; its termination message has to do.
        return text.splitlines()


def _left(ended: Exit) -> list[str]:
    """Return the end of the log that a container left as its message, where it is that."""
    return ended.message.splitlines() if ended.error is None else []
