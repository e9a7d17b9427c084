"""A run's ledger in its cluster, from which a later `up` goes on."""

import base64
import json
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from kubernetes.config import ConfigException

from jobs.observe.wait import InterruptedWait
from jobs.records.archive import Archive
from jobs.result import RunResult
from jobs.run import ledger
from jobs.run.ledger import Ledger, _packed
from jobs.run.train import Training
from jobs.run.waiter import wait
from scripts.cli.runs import detached
from scripts.cli.state import JobState, StackState
from scripts.cli.terminal import CommandError
from tests.unit.fake_api import FakeApi, served
from tests.unit.jobs.run.test_lifecycle import INPUTS, changed
from tests.unit.jobs_objects import clock
from tests.unit.row import Row

_CORE = "/api/v1/namespaces/slipway-jobs"
_WAITER = "/apis/batch/v1/namespaces/slipway-jobs/jobs/mine-waiter"
_OWN = {"name": "mine-waiter", "uid": "1"}
_RUN = {**INPUTS, "facts": {"revision": "abc"}, "succeeded": "mine-1"}


def test_an_up_goes_on_with_a_started_waiter_whose_next_pod_has_the_limits_of_today(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Ledger, "begin", begin := MagicMock())
    with served(FakeApi()) as api:

        def resumes(now: Any, **values: str) -> bool:
            kept = {"data": {"run": json.dumps(_RUN), **values}}
            api.says("GET", f"{_CORE}/configmaps/mine-waiter", kept)
            return Ledger.connect(api.kubeconfig, "slipway-jobs", "mine").resume(now, now, Row())

        api.says("GET", f"{_CORE}/pods", {"items": [{"metadata": {"name": "waiter"}}]})
        assert not resumes(INPUTS)
        assert not resumes(changed("job/epochs", 2), status="2 ranks")
        assert resumes(INPUTS, result="{}")
        api.says("GET", _WAITER, waiter("older"))
        assert resumes(changed("job/timeout", 9000), status="2 ranks")
        assert {method for method, *_ in api.asked} == {"GET"}, "its code may not know such a job"
        api.says("GET", _WAITER, waiter())
        assert resumes(changed("job/timeout", 9000), status="2 ranks")
        assert not begin.called
        asked = [each for each in api.asked if each[0] != "GET"]
        assert resumes({**INPUTS, "waiter": "newer"}, status="2 ranks")
        begin.assert_called_once_with(_RUN, "newer", None)
    [delete, patch] = asked
    assert delete[:2] == ("DELETE", f"{_CORE}/pods/waiter")
    run = {**_RUN, "job": changed("job/timeout", 9000)["job"]}
    assert json.loads(patch[2]["data"]["run"]) == run


def test_to_wait_is_as_patient_with_the_cluster_as_up_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def follow(self: Ledger, *_arguments: Any, **_options: Any) -> None:
        raise InterruptedWait(f"after {self.retry_seconds:g} s")

    monkeypatch.setattr(Ledger, "follow", follow)
    with served(FakeApi()) as api:
        api.says("GET", f"{_CORE}/configmaps/mine-waiter", {"data": {}})
        state = StackState(api.kubeconfig, jobs={"mine": JobState("mine", INPUTS)})
        monkeypatch.setattr(detached, "read_state", lambda _stack, **_secrets: state)
        with pytest.raises(CommandError, match="after 120 s"):
            detached.wait("dev", "mine")
    expired = MagicMock(side_effect=ConfigException("log in again"))
    monkeypatch.setattr(Ledger, "connect", expired)
    with pytest.raises(CommandError, match="dev's cluster can't be used: log in again"):
        detached.wait("dev", "mine")
    assert detached.caught_up("dev", state, [JobState(each, INPUTS) for each in "ab"]) == state
    assert expired.call_count == 2, "other commands do not wait for it again for each job"


def test_the_same_logs_are_packed_alike_at_any_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a waiter that starts again leaves further objects each time."""
    (tmp_path / "0.log").write_text("step 5")
    before = _packed(tmp_path, 9)
    monkeypatch.setattr("time.time", lambda: 2e9)
    assert _packed(tmp_path, 9) == before


def waiter(code: str = ledger.code()[0]) -> dict[str, Any]:
    volumes = [{"name": "code", "configMap": {"name": f"mine-waiter-code-{code}"}}]
    own = {"containers": [{"image": "waiter:1"}], "volumes": volumes}
    return {"spec": {"template": {"spec": own}}}


def test_a_waiter_in_another_image_with_another_hook_or_with_other_code_is_outdated() -> None:
    old: dict[str, Any] = {"url": "https://old"}
    hook = {"data": {"hook": base64.b64encode(json.dumps(old).encode()).decode()}}
    with served(FakeApi()) as api:
        api.says("GET", _WAITER, waiter())
        api.says("GET", f"{_CORE}/secrets/mine-waiter", hook)
        own = Ledger.connect(api.kubeconfig, "slipway-jobs", "mine")

        def outdated(image: str, hook: dict[str, Any] | None) -> bool:
            return own.is_outdated({"waiter": image, "hook": hook})

        assert not outdated("waiter:1", old)
        assert outdated("waiter:2", old)
        assert outdated("waiter:1", {"url": "https://new"})
        assert outdated("waiter:1", None)
        api.says("GET", _WAITER, waiter("older"))
        assert outdated("waiter:1", old), "it might reject the job of this version"


def test_a_lost_waiter_blocks_no_removal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.run.ledger._GONE_SECONDS", 1)
    pod = {"metadata": {"name": "w", "deletionTimestamp": clock(0)}, "spec": {"nodeName": "dead"}}
    with served(FakeApi()) as api:
        for method in ("GET", "DELETE"):
            api.says(method, f"{_CORE}/configmaps/mine-waiter", {"data": {}})
        api.says("GET", f"{_CORE}/pods", {"items": [pod]})
        api.says("GET", "/api/v1/nodes", {"items": []})
        own = Ledger.connect(api.kubeconfig, "slipway-jobs", "mine")
        with pytest.raises(TimeoutError, match=r"ConfigMap mine-waiter still .* `kubectl --name"):
            own.remove(Row())
    assert ("DELETE", f"{_CORE}/pods/w?gracePeriodSeconds=0", None) in api.asked


@pytest.mark.parametrize(("submitted", "end"), [("true", "Failed"), ("false", "Succeeded")])
def test_a_waiter_trains_no_job_again_that_was_removed(
    submitted: str, end: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Training, "to_the_end", lambda _: RunResult(state="Succeeded"))
    values = {"run": json.dumps(_RUN), "submitted": submitted}
    with served(FakeApi()) as api:
        api.says("GET", f"{_CORE}/configmaps/mine-waiter", {"metadata": _OWN, "data": values})
        api.says("POST", f"{_CORE}/configmaps", {})
        wait(Ledger.connect(api.kubeconfig, "slipway-jobs", "mine"), Archive(tmp_path))
    assert json.loads(api.asked[-1][2]["data"]["result"])["state"] == end


def test_a_waiter_that_can_not_run_again_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last status would be shown for ever. A pod of it that was evicted stays, too."""
    monkeypatch.setattr("jobs.run.ledger._START_SECONDS", 0.5)
    gone = {"state": {"waiting": {"reason": "ImagePullBackOff"}}}
    evicted = {"status": {"phase": "Failed"}}
    running = {"status": {"phase": "Running", "containerStatuses": [gone]}}
    with served(FakeApi()) as api:
        api.says("GET", f"{_CORE}/configmaps/mine-waiter", {"data": {"status": "2 ranks"}})
        api.says("GET", f"{_CORE}/pods", {"items": [evicted, running]})
        own = Ledger.connect(api.kubeconfig, "slipway-jobs", "mine")
        with pytest.raises(InterruptedWait, match="ImagePullBackOff"):
            own.follow(Row(), Archive(Path("/nowhere")), to_the_end=True)
