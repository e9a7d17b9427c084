"""Utilization is read from NVIDIA's exporter, and where that can't be, the run goes on."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from core import kube
from jobs.api.client import JobApi
from jobs.observe import gpus
from jobs.observe.gpus import GpuMeter
from jobs.observe.run_state import RunState
from jobs.observe.verdict import end_of
from jobs.observe.wait import Wait
from jobs.records.archive import Run
from tests.unit.fake_api import FakeApi, served
from tests.unit.jobs.observe.test_gpus import DECLARED, METRICS, gpu_pod
from tests.unit.jobs.observe.test_wait import Running
from tests.unit.jobs.run.test_lifecycle import Quiet
from tests.unit.jobs_objects import declared, job, pod
from tests.unit.not_none import not_none

NO_POD = "exporter has no running pod on node node-0"
METRICS_OF = "/api/v1/namespaces/gpu-operator/pods/exporter/proxy/metrics"


def exporter(node: str = "node-0", phase: str = "Running") -> dict[str, Any]:
    metadata = {"name": "exporter", "namespace": "gpu-operator"}
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": phase}}


@pytest.fixture
def api() -> Iterator[FakeApi]:
    """A cluster with an exporter on the node of rank 0."""
    made = FakeApi()
    made.says("GET", "/api/v1/pods", {"items": [exporter("elsewhere"), exporter()]})
    made.says("GET", METRICS_OF, METRICS)
    with served(made) as api:
        yield api


@pytest.fixture
def run() -> RunState:
    """A single rank with a GPU."""
    made = RunState(job("Running", workers=0))
    made.see_pods([gpu_pod(0)])
    return made


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look again and again, and be as patient as two looks."""
    monkeypatch.setattr(gpus, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(gpus, "PATIENCE_SECONDS", 0.04)


def meter(api: FakeApi, run: RunState, told: list[str]) -> GpuMeter:
    client = JobApi(kube.connect(api.kubeconfig), "slipway-jobs", "mine", retry_seconds=30)
    return GpuMeter(client, run, 90, told.append)


def until(holds: Callable[[], object], made: GpuMeter) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        made.look()
        time.sleep(0.01)


def paths(api: FakeApi) -> set[str]:
    return {path for _method, path, _body in api.asked}


def test_it_is_read_by_the_api_servers_proxy_from_the_exporters_on_the_runs_nodes(
    api: FakeApi, run: RunState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.observe.gpus.IDLE_SECONDS", 0.05)
    told: list[str] = []
    until(lambda: run.idle, meter(api, run, told))
    assert "peaking at 87%: rank 0 (mine-master-0)" in not_none(end_of(run, 0, DECLARED)).reason
    assert paths(api) == {
        "/api/v1/pods?labelSelector=app.kubernetes.io/name%3Ddcgm-exporter",
        "/api/v1/pods?labelSelector=app%3Dnvidia-dcgm-exporter",
        METRICS_OF,
    }
    assert told == []


@pytest.mark.parametrize(
    ("path", "document", "status", "words"),
    [
        ("/api/v1/pods", {"items": []}, 200, NO_POD),
        ("/api/v1/pods", {"items": [exporter(phase="Pending")]}, 200, NO_POD),
        ("/api/v1/pods", {"message": "pods is forbidden"}, 403, "exporter: pods is forbidden"),
        (METRICS_OF, {"message": "pods/proxy is forbidden"}, 403, "(pods/proxy is forbidden)"),
        (METRICS_OF, {"message": "dial tcp: timeout"}, 503, "(dial tcp: timeout)"),
        (METRICS_OF, "# nothing", 200, "no DCGM_FI_DEV_GPU_UTIL for pod mine-master-0"),
        ("/api/v1/pods", "what is this", 200, "can't read NVIDIA's DCGM exporter: JSONDecodeError"),
    ],
)
def test_a_failed_measurement_is_reported_once_and_ends_no_run(
    path: str, document: Any, status: int, words: str, api: FakeApi, run: RunState
) -> None:
    told: list[str] = []
    made = meter(api, run, told)
    api.says("GET", path, document, status)
    until(lambda: told, made)
    asked = len(api.asked)
    until(lambda: len(api.asked) >= asked + 9, made)
    (line,) = told
    assert words in line
    assert "`minGpuUtilization` in job mine" in line
    assert "docs/gpus.md#idle-gpus" in line
    assert end_of(run, 0, DECLARED) is None


def test_a_look_stops_asking_after_a_time(
    api: FakeApi, run: RunState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpus, "_MOST_SECONDS", -1.0)
    told: list[str] = []
    until(lambda: told, meter(api, run, told))
    assert "exporter did not respond within -1 s on node node-0" in told[0]
    assert METRICS_OF not in paths(api)


def test_an_exporter_that_starts_later_than_the_run_is_waited_for(
    api: FakeApi, run: RunState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpus, "PATIENCE_SECONDS", 300)
    told: list[str] = []
    made = meter(api, run, told)
    api.says("GET", METRICS_OF, {"message": "connection refused"}, 503)
    until(lambda: len(api.asked) > 6, made)
    api.says("GET", METRICS_OF, METRICS)
    until(lambda: run.gpu_use._streaks, made)
    assert told == []


def test_an_exporter_that_hangs_holds_nothing_up(api: FakeApi, run: RunState) -> None:
    answers = threading.Event()
    api.answers["GET", METRICS_OF] = lambda _body: (200, METRICS if answers.wait(30) else "")
    made = meter(api, run, [])
    until(lambda: METRICS_OF in paths(api), made)
    begun, asked = time.monotonic(), len(api.asked)
    for _ in range(100):
        made.look()
    assert time.monotonic() - begun < 2
    assert len(api.asked) == asked, "one look at a time"
    answers.set()
    until(lambda: run.gpu_use._streaks, made)


def test_ranks_that_wait_for_others_to_start_are_not_measured(api: FakeApi) -> None:
    waiting = RunState(job("Running"))
    waiting.see_pods([gpu_pod(0), pod(1)])
    made = meter(api, waiting, [])
    for _ in range(5):
        made.look()
        time.sleep(0.03)
    assert api.asked == []


def test_without_the_field_nothing_is_asked(tmp_path: Path) -> None:
    """The API of a run that does without has no exporters to list."""
    api = cast("JobApi", Running())
    wait = Wait(api, job("Running"), declared(), Quiet(), Run(tmp_path))
    assert wait._gpus is None
    assert wait.to_the_end().succeeded
