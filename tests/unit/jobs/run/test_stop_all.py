"""The runs that no resource knows of are stopped before what runs them goes away."""

from collections.abc import Iterator

import pytest

from jobs.run import submit
from tests.unit.clusters.operator.test_operator_ready import JOBS
from tests.unit.fake_api import FakeApi, served
from tests.unit.row import Row


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with served(FakeApi()) as answering:
        yield answering


@pytest.fixture
def removed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    monkeypatch.setattr(
        submit, "remove", lambda job, _context: names.append(f"{job.namespace}/{job.name}")
    )
    return names


def test_every_job_that_is_there_is_stopped_and_named(api: FakeApi, removed: list[str]) -> None:
    api.says("GET", JOBS, {"items": [{"metadata": {"name": name}} for name in ("b", "a")]})
    row = Row()
    submit.stop_all(api.kubeconfig, "slipway-jobs", row)
    assert sorted(removed) == ["slipway-jobs/a", "slipway-jobs/b"]
    assert row.said == ["stopping what an interrupted run left behind: a, b"]


def test_without_jobs_nothing_is_printed(api: FakeApi, removed: list[str]) -> None:
    row = Row()
    submit.stop_all(api.kubeconfig, "slipway-jobs", row)  # 404: there is not even the kind
    api.says("GET", JOBS, {"items": []})
    submit.stop_all(api.kubeconfig, "slipway-jobs", row)
    assert (removed, row.said) == ([], [])


def test_a_refusal_of_the_api_server_is_passed_on(api: FakeApi) -> None:
    api.says("GET", JOBS, {"kind": "Status", "message": "jobs is forbidden"}, status=403)
    with pytest.raises(RuntimeError, match="slipway-jobs: jobs is forbidden"):
        submit.stop_all(api.kubeconfig, "slipway-jobs", Row())


def test_an_unreachable_cluster_blocks_it(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = api.kubeconfig.replace(api.kubeconfig.split("127.0.0.1:")[1].split()[0], "1")
    with pytest.raises(RuntimeError, match="set PULUMI_K8S_DELETE_UNREACHABLE=true"):
        submit.stop_all(gone, "slipway-jobs", Row())
    monkeypatch.setenv("PULUMI_K8S_DELETE_UNREACHABLE", "true")
    submit.stop_all(gone, "slipway-jobs", Row())
