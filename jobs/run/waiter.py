"""What a waiter runs in its pod: `python3 -m jobs.run.waiter NAMESPACE JOB` (`jobs.run.ledger`).

It submits, waits, retries and judges as `up` does. Whatever ends it, the next one goes on: it takes
up the PyTorchJob that it finds, also one that has ended meanwhile.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from kubernetes.client.exceptions import ApiException

from clusters.cloud_reports import RefusedPulls
from core import kube
from core.context import Silence
from jobs.api.client import Unreachable
from jobs.model.submission import Submission
from jobs.plan import TrainingCost
from jobs.records.archive import Archive
from jobs.result import RunResult
from jobs.run.ledger import Ledger
from jobs.run.notify import Hook
from jobs.run.train import Training


@dataclass(kw_only=True)
class _Notes(Silence):
    """The `Context` of a run that nobody watches: what it shows is in its log and the ledger."""

    ledger: Ledger
    warnings: list[str]  # in the order in which they came, and each once

    def status(self, message: str) -> None:
        self.info(message)
        with suppress(ApiException, Unreachable):  # the next one is shown again
            self.ledger.note(status=message, warnings=json.dumps(self.warnings))

    def info(self, message: str) -> None:
        print(message, flush=True)  # noqa: T201  # the pod's log

    def warn(self, message: str) -> None:
        if message not in self.warnings:
            self.warnings.append(message)
            self.status(message)


def main(namespace: str, job: str) -> None:
    """Wait for a run in its pod."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(1))  # else process 1 ignores it
    wait(Ledger(kube.inside(), namespace, job), Archive(Path("/work/runs")))


def wait(ledger: Ledger, logs: Archive, clock: Callable[[], float] = time.monotonic) -> None:
    """Bring a run to its end and tell of it, as far as its ledger has not that it was done.

    `clock` counts the seconds of the limits that its job declares.
    """
    if (known := ledger.known()) is None:
        return
    notes = _Notes(ledger=ledger, warnings=json.loads(known.get("warnings", "[]")))
    ended = json.loads(known.get("result", "null"))
    result = RunResult.from_map(ended) if ended else _waited(ledger, known, notes, logs, clock)
    hook = os.environ.get("SLIPWAY_HOOK")
    if hook is None or "told" in known:
        return
    if not Hook(**json.loads(hook)).tell(ledger.name, result, notes.warn):
        sys.exit("to be told again")  # by the next one: this process is started anew
    ledger.note(told="true")


def _waited(
    ledger: Ledger,
    known: Mapping[str, str],
    notes: _Notes,
    logs: Archive,
    clock: Callable[[], float],
) -> RunResult:
    run = json.loads(known["run"])
    submission = replace(Submission.from_inputs(run), succeeded=run.get("succeeded"))
    cost = TrainingCost(**run["cost"]) if "cost" in run else None
    waited = (ledger, submission, run["facts"], logs, notes, cost, RefusedPulls.from_inputs(run))
    result = Training(*waited, takes_ended=True, clock=clock).to_the_end()
    ledger.end(result, logs)
    return result


if __name__ == "__main__":
    main(*sys.argv[1:])
