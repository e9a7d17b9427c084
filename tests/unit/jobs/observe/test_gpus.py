"""When a run's GPUs have been idle for too long, and how NVIDIA's exporter is asked for that."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs.api.client import JobApi
from jobs.observe import gpus
from jobs.observe.gpus import IDLE_SECONDS, GpuMeter, utilization
from jobs.observe.log_ends import LogEnds
from jobs.observe.outcome import details
from jobs.observe.run_state import RunState
from jobs.observe.verdict import end_of, is_stuck
from jobs.plan import TrainingCost
from jobs.records.archive import Run
from tests.unit.fake_api import FakeApi, served
from tests.unit.jobs_objects import RUNNING, clock, declared, done, ended, job, pod, seen
from tests.unit.not_none import not_none

DECLARED = declared(gpus=1, min_gpu_utilization=20)
LOOK = 30
# As an exporter of one node with two GPUs answers, one of which another namespace has.
METRICS = """\
# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",device="nvidia0",modelName="Tesla \\"T4\\"",Hostname="n",\
container="pytorch",namespace="slipway-jobs",pod="mine-master-0"} 87
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-b",namespace="other",pod="mine-master-0"} 5
DCGM_FI_DEV_GPU_UTIL{gpu="2",UUID="GPU-c"} 0
DCGM_FI_DEV_GPU_UTIL{gpu="3",UUID="GPU-d",namespace="slipway-jobs",pod="mine-worker-0"} \
9223372036854775794
DCGM_FI_DEV_MEM_COPY_UTIL{gpu="0",UUID="GPU-a",namespace="slipway-jobs",pod="mine-master-0"} 12
"""
MASTER, WORKER = ("mine-master-0", "GPU-a"), ("mine-worker-0", "GPU-b")


def gpu_pod(rank: int, gpus: int = 1, node: str = "", **told: Any) -> dict[str, Any]:
    """A pod that has GPUs, each on a node of its own."""
    made = pod(rank, **{"state": RUNNING, **told})
    made["spec"] |= {"nodeName": node or f"node-{rank}"}
    made["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = str(gpus)
    return made


@pytest.fixture
def run() -> RunState:
    """Two ranks with a GPU each."""
    return seen("Running", gpu_pod(0), gpu_pod(1))


def measured(run: RunState, start: float, end: float, master: float, worker: float) -> None:
    """Let a run see the same of both GPUs at each look from `start` to `end`."""
    for at in range(int(start), int(end) + 1, LOOK):
        run.see_gpus(at, {MASTER: master, WORKER: worker}, 20)


def test_utilization_is_grouped_by_pod_and_gpu() -> None:
    assert utilization(METRICS, "slipway-jobs") == {("mine-master-0", "GPU-a"): 87}
    assert utilization(METRICS, "other") == {("mine-master-0", "GPU-b"): 5}
    assert utilization("<html>no metrics</html>", "slipway-jobs") == {}


def test_one_idle_gpu_ends_the_run_with_rank_pod_and_waste(run: RunState) -> None:
    measured(run, 0, IDLE_SECONDS - LOOK, master=100, worker=3)
    assert end_of(run, 0, DECLARED) is None
    measured(run, IDLE_SECONDS, IDLE_SECONDS, master=100, worker=1)
    end = not_none(end_of(run, 0, DECLARED))
    assert (end.state, is_stuck(run, end)) == ("TimedOut", True)
    assert end.reason == (
        "1 of 2 GPUs stayed below 20% for 10 minutes, peaking at 3%: "
        "rank 1 (mine-worker-0). That wasted 0.17 GPU hours"
    )
    assert [each.number for each in run.hanging] == [1], "of the other one no stack is needed"
    found = details(end, LogEnds(run, Run(Path("/nowhere"))), [], DECLARED)
    assert (found.rank, found.pod) == (1, "mine-worker-0")
    assert "minGpuUtilization" in str(found.advice)


@pytest.mark.parametrize(
    ("pods", "money"),
    [
        ([gpu_pod(0), gpu_pod(1)], "EUR 0.67"),
        ([gpu_pod(0, node="one"), gpu_pod(1, node="one")], "EUR 0.33"),
        ([gpu_pod(0, gpus=2), gpu_pod(1, gpus=2)], "EUR 0.33"),
    ],
)
def test_money_is_the_idle_share_of_the_nodes(pods: list[dict[str, Any]], money: str) -> None:
    run = seen("Running", *pods)
    measured(run, 0, IDLE_SECONDS, master=0, worker=0)
    cost = TrainingCost(fewest=1, nodes=2, hourly=2, currency="EUR")
    assert not_none(end_of(run, 0, DECLARED, cost)).reason.endswith(
        f"rank 0 (mine-master-0), rank 1 (mine-worker-0). That wasted 0.33 GPU hours, {money}"
    )


@pytest.mark.parametrize(
    ("looks", "ends"),
    [
        ([(0, 570, 0), (600, 600, 20), (630, 1200, 0)], False),
        # What was not measured may have been used.
        ([(0, 570, 0), (720, 1290, 0)], False),
        ([(0, 570, 0), (720, 1320, 0)], True),
        ([(0, 300, 0), (390, 600, 0)], True),
    ],
    ids=["computes now and then", "a gap", "idle after a gap", "a failed measurement"],
)
def test_idle_time_restarts_after_work_or_a_gap(
    run: RunState, looks: list[tuple[int, int, int]], ends: bool
) -> None:
    for start, end, worker in looks:
        measured(run, start, end, master=100, worker=worker)
    assert (end_of(run, 0, DECLARED) is not None) is ends


@pytest.mark.parametrize(
    "now", [gpu_pod(1, created=clock(0, 10)), gpu_pod(1, state=ended(0))], ids=["replaced", "done"]
)
def test_a_pod_that_is_replaced_or_done_has_given_its_gpu_back(
    now: dict[str, Any], run: RunState
) -> None:
    measured(run, 0, IDLE_SECONDS, master=100, worker=0)
    run.see_pods([now])
    measured(run, IDLE_SECONDS + LOOK, IDLE_SECONDS + LOOK, master=100, worker=0)
    assert end_of(run, 0, DECLARED) is None


def test_what_has_ended_by_itself_was_not_idle(run: RunState) -> None:
    measured(run, 0, IDLE_SECONDS, master=0, worker=0)
    run.see_jobs([job("Succeeded")])
    run.see_pods([done(0), done(1)])
    assert not_none(end_of(run, 0, DECLARED)).state == "Succeeded"


METRICS_OF = "/api/v1/namespaces/gpu-operator/pods/exporter/proxy/metrics"


def exporter(node: str = "node-0", phase: str = "Running") -> dict[str, Any]:
    metadata = {"name": "exporter", "namespace": "gpu-operator"}
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": phase}}


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    """A cluster with an exporter on the node of rank 0, where two looks are soon made."""
    monkeypatch.setattr(gpus, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(gpus, "PATIENCE_SECONDS", 0.04)
    made = FakeApi()
    made.says("GET", "/api/v1/pods", {"items": [exporter("elsewhere"), exporter()]})
    made.says("GET", METRICS_OF, METRICS)
    with served(made) as api:
        yield api


@pytest.fixture
def alone() -> RunState:
    """A single rank with a GPU."""
    return seen(job("Running", workers=0), gpu_pod(0))


def meter(api: FakeApi, run: RunState) -> tuple[GpuMeter, list[str]]:
    """Return a meter of a run's GPUs, and what it warns of."""
    client, told = JobApi.connect(api.kubeconfig, "slipway-jobs", "mine"), list[str]()
    return GpuMeter(client, run, 90, told.append), told


def until(holds: Callable[[], object], made: GpuMeter) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        made.look()
        time.sleep(0.01)


def paths(api: FakeApi) -> set[str]:
    return {path for _method, path, _body in api.asked}


def test_it_is_read_by_the_api_servers_proxy_from_the_exporters_on_the_runs_nodes(
    api: FakeApi, alone: RunState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpus, "IDLE_SECONDS", 0.05)
    made, told = meter(api, alone)
    until(lambda: alone.idle, made)
    assert "peaking at 87%: rank 0 (mine-master-0)" in not_none(end_of(alone, 0, DECLARED)).reason
    assert paths(api) == {
        "/api/v1/pods?labelSelector=app.kubernetes.io/name%3Ddcgm-exporter",
        "/api/v1/pods?labelSelector=app%3Dnvidia-dcgm-exporter",
        METRICS_OF,
    }
    assert told == []


@pytest.mark.parametrize(
    ("path", "document", "status", "words"),
    [
        (
            "/api/v1/pods",
            {"items": [exporter(phase="Pending")]},
            200,
            "no running pod on node node-0",
        ),
        ("/api/v1/pods", {"message": "pods is forbidden"}, 403, "exporter: pods is forbidden"),
        (METRICS_OF, {"message": "pods/proxy is forbidden"}, 403, "(pods/proxy is forbidden)"),
        (METRICS_OF, "# nothing", 200, "no DCGM_FI_DEV_GPU_UTIL for pod mine-master-0"),
        ("/api/v1/pods", "odd", 200, "can't read metrics from NVIDIA's DCGM exporter: JSONDecode"),
    ],
)
def test_a_failed_measurement_is_reported_once_and_ends_no_run(
    path: str, document: Any, status: int, words: str, api: FakeApi, alone: RunState
) -> None:
    made, told = meter(api, alone)
    api.says("GET", path, document, status)
    until(lambda: told, made)
    asked = len(api.asked)
    until(lambda: len(api.asked) >= asked + 9, made)
    (line,) = told
    assert words in line
    assert "`minGpuUtilization` in job mine" in line
    assert "docs/gpus.md#idle-gpus" in line
    assert end_of(alone, 0, DECLARED) is None


def test_a_look_stops_asking_after_a_time(
    api: FakeApi, alone: RunState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpus, "_MOST_SECONDS", -1.0)
    made, told = meter(api, alone)
    until(lambda: told, made)
    assert "exporter did not respond within -1 s on node node-0" in told[0]
    assert METRICS_OF not in paths(api)


def test_an_exporter_that_starts_later_than_the_run_is_waited_for(
    api: FakeApi, alone: RunState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpus, "PATIENCE_SECONDS", 300)
    made, told = meter(api, alone)
    api.says("GET", METRICS_OF, {"message": "connection refused"}, 503)
    until(lambda: len(api.asked) > 6, made)
    api.says("GET", METRICS_OF, METRICS)
    until(lambda: alone.gpu_use._streaks, made)
    assert told == []


def test_an_exporter_that_hangs_holds_nothing_up(api: FakeApi, alone: RunState) -> None:
    answers = threading.Event()
    api.answers["GET", METRICS_OF] = lambda _body: (200, METRICS if answers.wait(30) else "")
    made, _ = meter(api, alone)
    until(lambda: METRICS_OF in paths(api), made)
    begun, asked = time.monotonic(), len(api.asked)
    for _ in range(100):
        made.look()
    assert time.monotonic() - begun < 2
    assert len(api.asked) == asked, "one look at a time"
    answers.set()
    until(lambda: alone.gpu_use._streaks, made)


def test_ranks_that_wait_for_others_to_start_are_not_measured(api: FakeApi) -> None:
    meter(api, seen("Running", gpu_pod(0), pod(1)))[0].look()
    time.sleep(0.05)
    assert api.asked == []
