"""A run's ledger in its cluster, from which a later `up` goes on."""

import json
from typing import Any

import pytest

from jobs.observe.wait import InterruptedWait
from jobs.run.ledger import Ledger
from scripts.cli.runs import detached
from scripts.cli.state import JobState, StackState
from scripts.cli.terminal import CommandError
from tests.unit.fake_api import FakeApi, served
from tests.unit.jobs.run.test_lifecycle import INPUTS, changed

_CORE = "/api/v1/namespaces/slipway-jobs"
_RUN = {**INPUTS, "facts": {"revision": "abc"}, "succeeded": "mine-1"}


def test_an_up_goes_on_with_a_started_waiter_whose_next_pod_has_the_limits_of_today() -> None:
    with served(FakeApi()) as api:

        def resumes(now: Any, **values: str) -> bool:
            ledger = {"data": {"run": json.dumps(_RUN), **values}}
            api.says("GET", f"{_CORE}/configmaps/mine-waiter", ledger)
            return Ledger.connect(api.kubeconfig, "slipway-jobs", "mine").resume(now)

        api.says("GET", f"{_CORE}/pods", {"items": [{"metadata": {"name": "waiter"}}]})
        assert not resumes(INPUTS)
        assert not resumes(changed("job/epochs", 2), status="2 ranks")
        assert resumes(INPUTS, result="{}")
        assert resumes(changed("job/timeout", 9000), status="2 ranks")
    [delete, patch] = [each for each in api.asked if each[0] != "GET"]
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
