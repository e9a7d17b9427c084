"""Gather a job's watch events and log lines in one queue as they arrive."""

import queue
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from core.kube import REQUEST_ERRORS
from jobs.api.client import JobApi, Object
from jobs.api.follower import Container, Follower
from jobs.api.lines import Line
from jobs.api.streams import See
from jobs.model.pytorchjob import run_of
from jobs.observe.replica import containers, starts_in
from jobs.observe.run_state import RunState
from jobs.records.archive import Run
from jobs.records.events import HELD
from jobs.records.recording import Recording

_GATHER_SECONDS = 0.1


@dataclass
class Feed:
    """Follows one run in threads while its `with` block runs, and records its replicas' logs.

    Progress is read from the lines of replica 0 or, in an elastic job, of the first running one.
    """

    api: JobApi
    run: RunState
    kept: Run
    warn: Callable[[str], None]
    _seen: "queue.SimpleQueue[tuple[See, Any]]" = field(default_factory=queue.SimpleQueue)
    _pods: Sequence[Mapping[str, Any]] = ()
    _resources: ExitStack = field(default_factory=ExitStack)
    _progress_replica: int = 0
    _ending: bool = False

    def __enter__(self) -> "Feed":
        run, api = self.run, self.api
        self._recording = Recording(self.kept, run.topology, self.warn, heard=self._hear)
        self._resources.enter_context(self._recording)
        self.follower = Follower(api, self._recording, starts_in)
        self._resources.callback(self.follower.close)
        for see, watch in ((run.see_jobs, api.watch_job), (run.see_pods, api.watch_pods)):
            self._resources.enter_context(watch(partial(self._pass_on, see), self.follower.failed))
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.close()

    def process(self, wait_seconds: float) -> None:
        """Process everything that arrived since the last call; if nothing did, wait for it.

        Each call also resumes interrupted logs, and raises unexpected errors from threads.
        """
        arrived = self._take(wait_seconds)
        for see, what in arrived:
            see(what)
        # Every listing counts: a short-lived container may be in only one of them.
        for pods in [what for see, what in arrived if see == self.run.see_pods] or [self._pods]:
            self._pods = pods
            current = self._containers(pods)
            if self.run.topology.elastic:
                running = [each.replica for each in current if not each.ended]
                self._progress_replica = min(running, default=self._progress_replica)
            self.follower.follow(current)

    def finish(self, limit_seconds: float) -> None:
        """Fetch the rest of the logs, within a time limit, before any pod is deleted."""
        self._ending = True
        try:
            self._pods = self.api.pods()
        except REQUEST_ERRORS as error:
            self.follower.failed(error)
        if self.follower.finish(self._containers(self._pods), limit_seconds):
            self._recording.seal()
        else:
            reason = f": {self.follower.last_error}" if self.follower.last_error else ""
            self.warn(f"not all logs were read within {limit_seconds:g} s{reason}")
        # Only lines are passed on: pods stopped now must not change the verdict.
        for see, what in self._take(0):
            if see in (self.run.progress.see, self.run.see_held):
                see(what)

    def _take(self, wait_seconds: float) -> list[tuple[See, Any]]:
        items: list[tuple[See, Any]] = []
        with suppress(queue.Empty):
            items.append(self._seen.get(timeout=wait_seconds))
            # Lines of many ranks arrive one by one, and each call looks at all ranks.
            time.sleep(_GATHER_SECONDS)
            while True:
                items.append(self._seen.get_nowait())
        return items

    def _containers(self, pods: Iterable[Mapping[str, Any]]) -> list[Container]:
        return containers(pods, self.run.topology, run_of(self.run.job))

    def _hear(self, replica: int, lines: Iterable[Line]) -> None:
        # Lines that an earlier process recorded are read again only to restore the progress.
        fresh = lines if isinstance(lines, Sequence) else ()
        if not self._ending:
            # A log may not fit in memory, even less those of all ranks.
            signs = [each for each in fresh[:-1] if '"event": ' in each.text]
            self._seen.put((self.run.see_sign, (replica, [*signs, *fresh[-1:]])))
        is_progress, may_be_held = replica == self._progress_replica, self.run.may_be_held
        for line in lines if is_progress or may_be_held else ():
            if may_be_held and HELD in line.text:
                self._seen.put((self.run.see_held, (replica, line.text)))
            if is_progress:
                self._seen.put((self.run.progress.see, line.text))

    def _pass_on(self, see: See, objects: list[Object]) -> None:
        self.follower.contact = time.monotonic()
        self._seen.put((see, objects))
