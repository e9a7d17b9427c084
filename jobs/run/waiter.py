"""The program in a waiter's pod: `python3 -m jobs.run.waiter NAMESPACE JOB` (`jobs.run.ledger`).

It submits the run, waits, retries and evaluates it as `up` does. After an interruption, the next
pod resumes: it adopts the existing PyTorchJob, even if the job has since ended.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from core import kube
from core.context import Silence
from jobs.records.archive import Archive
from jobs.result import RunResult
from jobs.run.ledger import Ledger
from jobs.run.notify import Hook
from jobs.run.train import Training

_GONE = "the PyTorchJob was removed while its waiter was restarting, so its result is unknown"


@dataclass(kw_only=True)
class _Notes(Silence):
    """A waiter's `Context`, which writes messages to the pod's log and the ledger."""

    ledger: Ledger
    warnings: list[str]  # in the order they arrived, without duplicates

    def status(self, message: str) -> None:
        self.info(message)
        with suppress(*kube.REQUEST_ERRORS):  # the next status repeats the warnings
            self.ledger.note(status=message, warnings=json.dumps(self.warnings[-50:]))

    def info(self, message: str) -> None:
        print(message, flush=True)  # noqa: T201  # the pod's log

    def warn(self, message: str) -> None:
        message = message[:1000]  # the ledger has room for 1 MiB
        if message not in self.warnings:
            self.warnings.append(message)
            self.status(message)


def main(namespace: str, job: str) -> None:
    """Run the waiter in its pod: wait for a run, and record the outcome in the ledger."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(1))  # otherwise process 1 ignores it
    wait(Ledger(kube.inside(), namespace, job), Archive(Path("/work/runs")))


def wait(ledger: Ledger, logs: Archive, clock: Callable[[], float] = time.monotonic) -> None:
    """Wait until a run ends, then notify its webhook; skip whatever the ledger records as done.

    `clock` returns seconds, for the job's time limits.
    """
    if (values := ledger.read_values()) is None:
        return
    notes = _Notes(ledger=ledger, warnings=json.loads(values.get("warnings", "[]")))
    ended = json.loads(values.get("result", "null"))
    if ended:
        result = RunResult.from_map(ended)
    else:
        run, more = json.loads(values["run"]), {"note": ledger.note, "clock": clock}
        job = ledger.get() or {"metadata": {"deletionTimestamp": None}}
        if values.get("submitted") == "true" and "deletionTimestamp" in job["metadata"]:
            # Whoever deletes the job, or sets a TTL, does not want it to be trained again.
            result = RunResult(state="Failed", reason=_GONE, last_succeeded=run["succeeded"])
        else:
            result = Training.of(run, ledger, logs, notes, **more).to_the_end()
        ledger.end(result, logs)
    hook = os.environ.get("SLIPWAY_HOOK")
    if hook is None or "told" in values:
        return
    if not Hook(**json.loads(hook)).notify(ledger.name, result, notes.warn):
        sys.exit("the webhook was not notified; it will be notified after the next restart")
    ledger.note(told="true")


if __name__ == "__main__":
    main(*sys.argv[1:])
