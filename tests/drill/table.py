"""`make drill`: faults on purpose, each at a moment of a small job, and what became of the job.

The cluster is an embedded one of the drill's own, in a state of its own; the host is left alone.
Each row runs a real torch job of two ranks through the handlers that `make up` uses. A row passes
if the job ends as it should within its limit, was submitted once, and the cluster is well again.
Seconds lost are those beyond the first row's, which nothing disturbs. `ROWS='kubelet|etcd'` runs
only the rows that match.
"""

import argparse
import json
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from concurrent.futures import TimeoutError as Late
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from clusters.cluster import JOBS
from clusters.embedded import isolation, lifecycle, pki, supervisor
from clusters.embedded.layout import Layout
from core.manifests import KEPT_CLAIM
from core.paths import CHECKOUT
from jobs.model import volumes
from jobs.records import archive
from jobs.records.events import events_of
from tests.drill import faults
from tests.drill.faults import Fault, Place
from tests.engine.embedded_cluster import TestCluster, bring_in_trainer, bring_in_waiter
from tests.engine.pytorchjob_stack import Jobs
from tests.live_cluster import install_operator
from tests.runs.runner import Attempt, Runs

_BEFORE_SECONDS = 1.0
_MOMENT_SECONDS, _WELL_SECONDS, _LEFT_SECONDS = 90.0, 60.0, 60.0
_RESTARTS: Mapping[str, Any] = {"restartPolicy": "OnFailure", "backoffLimit": 12}
_ENDS: Mapping[str, Any] = {"restartPolicy": "Never"}
_RETRIES: Mapping[str, Any] = {**_ENDS, "retries": 2, "retryOn": ["ownFailure", "lostNode"]}
_COREDNS, _OPERATOR, _WAITER = "/coredns", "training-operator", "jobs.run.waiter"


@dataclass(frozen=True)
class Row:
    """A fault at a moment.

    Args:
        fault: In the table.
        moment: `created`, `rendezvous`, `mid-epoch`, `checkpoint` or `evaluation`; None if the job
            brings it about itself, or it precedes the job.
        act: Brings it about.
        job: The job's fields, besides the program's.
        reason: What the reason must contain if the job has to fail.
        limit: Seconds for the whole run.
        before: True if the fault comes before the job is submitted.
    """

    fault: str
    moment: str | None
    act: Fault | None
    job: Mapping[str, Any] = field(default_factory=lambda: _RESTARTS)
    reason: str | None = None
    limit: float = 150.0
    before: bool = False


@dataclass
class Outcome:
    """What became of a row's job; `faults` are the ways in which the row misses."""

    state: str = ""
    reason: str = ""
    seconds: float = 0.0
    repeated: int = 0
    notes: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


_DRILL = {"rank": 1, "step": 10, "within": 60}
ROWS = (
    Row("nothing", None, None),
    Row("worker killed", "rendezvous", faults.killed(1)),
    Row("worker killed", "mid-epoch", faults.killed(1)),
    Row("worker killed, retries", "checkpoint", faults.killed(1), _RETRIES),
    Row("elastic worker killed by `drill`", None, None, {"drill": _DRILL}),
    Row("master killed", "mid-epoch", faults.killed(0), _ENDS, "rank 0"),
    Row("master killed", "checkpoint", faults.killed(0)),
    Row("worker's pod deleted", "created", faults.pod_deleted("worker-0")),
    Row("worker's pod deleted", "evaluation", faults.pod_deleted("worker-0"), _RETRIES),
    Row("worker stopped", "evaluation", faults.stopped(1), {**_RESTARTS, "stall": 20}, "stalled"),
    Row("operator killed", "created", faults.program_killed(_OPERATOR)),
    Row("kubelet killed", "mid-epoch", faults.component_killed("kubelet")),
    Row("containerd killed", "checkpoint", faults.component_killed("containerd")),
    Row("etcd killed", "rendezvous", faults.component_killed("etcd")),
    Row("API server killed", "evaluation", faults.component_killed("kube-apiserver")),
    Row("coredns killed", "rendezvous", faults.program_killed(_COREDNS)),
    Row("DNS away for 8 s", "created", faults.program_paused(_COREDNS, 8)),
    Row("waiter killed", "mid-epoch", faults.program_killed(_WAITER), {**_RESTARTS, "wait": False}),
    Row("worker's network dropped for 6 s", "mid-epoch", faults.network_dropped(1, 6)),
    Row("volume full", "checkpoint", faults.volume_filled, _ENDS, "No space left", before=True),
    Row("webhook gone for 20 s", "submission", faults.program_paused(_OPERATOR, 20), before=True),
)


class Drill:
    """The rows, one after the other, in one cluster."""

    def __init__(self, cluster: TestCluster, directory: Path) -> None:
        self.cluster = cluster
        kubeconfig = pki.kubeconfig(cluster.layout, "admin")
        install_operator(cluster, kubeconfig)
        file = directory / "kubeconfig"
        file.touch(0o600)
        file.write_text(kubeconfig)
        self.jobs = Jobs(file)
        self.runs = Runs(kubeconfig, bring_in_trainer(cluster), self.jobs)
        self.runs.waiter = bring_in_waiter(cluster)
        claim = volumes.claim(KEPT_CLAIM, JOBS, "1Gi")
        self.jobs.kubectl("apply", "--filename", "-", given=json.dumps(claim))

    def run(self, row: Row, number: int) -> Outcome:
        """Run one job to its end, with its fault on the way."""
        seen, place = Outcome(), Place(self.cluster, self.jobs, f"drill-{number}")
        try:
            self._bring(row, place, seen)
        except Exception as error:  # noqa: BLE001 - the next row is not to be lost
            seen.faults.append(f"{type(error).__name__}: {error}".splitlines()[0][:200])
        if row.act == faults.volume_filled:
            faults.volume_emptied(place)
        seen.faults += self._judged(row, place, seen)
        self._heal(seen)
        try:
            self.runs.destroy(place.job)
        except Exception as error:  # noqa: BLE001 - as above; perhaps it never began
            seen.faults.append(f"it can't be removed: {error}")
            self.jobs.remove(place.job)
        return seen

    def _bring(self, row: Row, place: Place, seen: Outcome) -> None:
        declared = declaration(row)
        began = time.monotonic()
        with ThreadPoolExecutor(1) as pool:
            if row.before and row.act is not None:
                wait([pool.submit(row.act, place)], _BEFORE_SECONDS)
            with self.runs.training(place.job, **declared) as going:
                self._disturb(row, place, going, seen)
                try:
                    going.future.result(max(1.0, row.limit - (time.monotonic() - began)))
                except Late:
                    seen.faults.append(f"it hangs: not done within {row.limit:g} s")
                    return
        result = self._result(place, declared, began + row.limit)
        error = going.error
        seen.state = result.get("state", "no result")
        seen.reason = str(result.get("reason", "")) or str(error or "")
        if error is not None and row.reason is None:
            seen.faults.append(str(error).splitlines()[0][:160])
        seen.seconds = time.monotonic() - began
        seen.repeated = repeated(place.job)
        if drill := result.get("drill"):
            seen.notes.append(f"recovered in {drill.get('seconds')} s")
        if attempts := result.get("attempts"):
            seen.notes.append(f"attempt {len(attempts) + 1}")
        if restarts := result.get("restarts"):
            seen.notes.append(f"{restarts} restarts")

    def _disturb(self, row: Row, place: Place, going: Attempt, seen: Outcome) -> None:
        if row.act is None or row.before:
            return
        is_left = row.job.get("wait") is False  # `up` is done once its ranks run
        is_over = (lambda: False) if is_left else going.future.done
        if place.await_moment(str(row.moment), _MOMENT_SECONDS, is_over):
            row.act(place)
        else:
            seen.faults.append(f"the job was never at {row.moment}")

    def _result(
        self, place: Place, declared: Mapping[str, Any], deadline: float
    ) -> Mapping[str, Any]:
        """Return the run's result, which a waiter may only come to have."""
        while True:
            try:
                result: Mapping[str, Any] = self.runs.output(place.job)
            except KeyError:
                return {}
            if result["state"] != "Running" or time.monotonic() > deadline:
                return result
            time.sleep(2)
            self.runs.train(place.job, **declared)

    def _judged(self, row: Row, place: Place, seen: Outcome) -> Iterator[str]:
        if row.reason is None and seen.state != "Succeeded":
            yield f"it ended {seen.state}: {seen.reason:.200}"
        if row.reason is not None and (seen.state == "Succeeded" or row.reason not in seen.reason):
            yield f"it ended {seen.state}, and its reason lacks `{row.reason}`: {seen.reason:.200}"
        if len(self.jobs.uids(place.job)) > 1:
            yield "there are two PyTorchJobs"
        pods = [each["metadata"]["name"] for each in self.jobs.items("pods", place.job)]
        if len(pods) != len({*pods}) or len(pods) > 3:
            yield f"there are more pods than ranks: {', '.join(pods)}"

    def _heal(self, seen: Outcome) -> None:
        """Wait until the cluster is well by itself; otherwise do what the next `make up` does."""
        deadline = time.monotonic() + _WELL_SECONDS
        while problems := self.cluster.problems():
            if time.monotonic() > deadline:
                seen.notes.append(f"healed by the next `make up` only: {'; '.join(problems):.120}")
                self.cluster.heal()
                return
            time.sleep(1)

    def left(self) -> list[str]:
        """Return what the jobs have left in the node, after a minute."""
        time.sleep(_LEFT_SECONDS)
        pods = [each["metadata"] for each in self.cluster.get("pods", "--all-namespaces")["items"]]
        left = [f"pod {each['name']}" for each in pods if each["name"].startswith("drill-")]
        for pid in isolation.processes(self.cluster.layout):
            with suppress(OSError):
                text = Path(f"/proc/{pid}/environ").read_text(errors="replace")
                if "SLIPWAY_JOB=drill-" in text:
                    left.append(f"process {isolation.named(pid)}")
        alive = {each["uid"] for each in pods}
        mounts = Path(f"/proc/{supervisor.pid(self.cluster.layout)}/mounts").read_text()
        points = [line.split()[1] for line in mounts.splitlines()]
        of_pods = [each for each in points if "/pods/" in each]
        gone = [each for each in of_pods if each.split("/pods/")[1].split("/")[0] not in alive]
        return [*left, *(f"mount {each}" for each in gone)]


def declaration(row: Row) -> dict[str, Any]:
    """Return a row's job; the elastic one is the demo, in seconds."""
    if "drill" in row.job:
        arguments = ["--limit-train", "6000", "--limit-test", "500", "--log-interval", "5"]
        own = {"demo": "mnist-elastic", "args": arguments, "cpu": "200m", "minAccuracy": 0.1}
        return {**own, **row.job}
    return {
        "script": str(CHECKOUT / "tests/drill/program.py"),
        "workers": 1,
        "cpu": "200m",
        "timeout": 140,
        "startTimeout": 120,
        "checkpoint": {"every": "10 steps"},
        **row.job,
    }


def repeated(job: str) -> int:
    """Return how many steps of rank 0 were made again."""
    logs = [log for run in archive.of_job("test", job).runs() for log in run.logs()]
    kinds = ("step", "metrics")
    made = [each for log in logs if log.replica == 0 for each in events_of(log, kinds)]
    steps = [each["step"] for each in made if isinstance(each.get("step"), int)]
    return len(steps) - len({*steps})


@contextmanager
def _own_cluster() -> Iterator[tuple[TestCluster, Path]]:
    with tempfile.TemporaryDirectory(prefix="slw-drill-") as name:
        directory = Path(name)
        os.environ["XDG_STATE_HOME"] = str(directory / "state")
        cluster = TestCluster(Layout(directory / "cluster"))
        try:
            cluster.heal()
            yield cluster, directory
        finally:
            lifecycle.remove(cluster.layout.directory)


def main() -> int:
    """Print the table; exit with 1 if a row misses."""
    parser = argparse.ArgumentParser(prog="python -m tests.drill.table", description=__doc__)
    parser.add_argument("rows", nargs="?", default="", help="a regular expression of rows to run")
    wanted = parser.parse_args().rows
    found = [each for each in ROWS[1:] if re.search(wanted, f"{each.fault} @ {each.moment}")]
    rows = [ROWS[0], *found]
    seen: list[tuple[Row, Outcome]] = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the cluster is removed
    with _own_cluster() as (cluster, directory):
        drill = Drill(cluster, directory)
        for row in rows:
            outcome = drill.run(row, ROWS.index(row))
            print(f"{row.fault} @ {row.moment}: {outcome}", file=sys.stderr, flush=True)
            seen.append((row, outcome))
        left = drill.left()
    _print(seen)
    print(f"left a minute later: {', '.join(left) or 'nothing'}")
    return int(bool(left) or any(outcome.faults for _, outcome in seen))


def _print(seen: list[tuple[Row, Outcome]]) -> None:
    usual = seen[0][1].seconds
    print(f"an undisturbed run takes {usual:.0f} s")
    columns = ("fault", "moment", "verdict", "ended", "s lost", "steps again", "notes")
    table = Table(*columns, box=box.SIMPLE_HEAD)
    for row, outcome in seen:
        table.add_row(
            *(row.fault, row.moment or "-", "misses" if outcome.faults else "passed"),
            *(outcome.state, f"{outcome.seconds - usual:.0f}", str(outcome.repeated)),
            "; ".join([*outcome.faults, *outcome.notes]),
        )
    Console(width=200).print(table)


if __name__ == "__main__":
    sys.exit(main())
