"""A run's ledger in its cluster, from which a later `up` goes on."""

import json
from pathlib import Path
from typing import Any

import pytest

from jobs.run.ledger import Ledger, _packed
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


def test_the_same_logs_are_packed_alike_at_any_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a waiter that starts again leaves further objects each time."""
    (tmp_path / "0.log").write_text("step 5")
    before = _packed(tmp_path, 9)
    monkeypatch.setattr("time.time", lambda: 2e9)
    assert _packed(tmp_path, 9) == before
