"""A run is trained again, changed in place, or left alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from unittest.mock import MagicMock

import pytest
from kubernetes.client.exceptions import ApiException

from core.handler import UNKNOWN
from jobs.api.client import Unreachable
from jobs.config import CATALOG
from jobs.model.places import VOLUME_URL
from jobs.plan import TrainingCost
from jobs.records.archive import of_job
from jobs.records.history import History, Record
from jobs.result import RunResult
from jobs.run import lifecycle
from jobs.run.lifecycle import PyTorchJobHandler
from jobs.run.train import Training
from tests.unit.archived_run import line, made
from tests.unit.jobs_declared import submitted
from tests.unit.row import Row


@dataclass
class Quiet(Row):
    """The row of the run of a job `mine`, whether anybody reads it or not."""

    urn: str = "urn:pulumi:dev::slipway::slipway:jobs:PyTorchJob::mine"


@pytest.fixture(autouse=True)
def ledger(monkeypatch: pytest.MonkeyPatch) -> MagicMock:
    """The ledger of a run without a waiter in the cluster."""
    made = MagicMock(**{"read_values.return_value": None, "resume.return_value": False})
    made.is_outdated.side_effect = lambda inputs: inputs["waiter"] != "image"
    monkeypatch.setattr(lifecycle, "_api", lambda _: made)
    return made


SUBMISSION = submitted(CATALOG["mnist-gloo"], place=VOLUME_URL)
INPUTS: Mapping[str, Any] = {"kubeconfig": "kubeconfig", **SUBMISSION.inputs()}
SUCCEEDED = {"state": "Succeeded", "reason": "", "accuracy": 0.97}


def diff(inputs: Mapping[str, Any], result: Mapping[str, Any] = SUCCEEDED) -> dict[str, bool]:
    """Return what differs from a run with INPUTS, and whether that trains again."""
    changes = PyTorchJobHandler().diff({**INPUTS, "result": result}, dict(inputs), Quiet())
    return {change.path: change.replace for change in changes}


def changed(path: str, value: object) -> dict[str, Any]:
    """Return INPUTS with another value at a path of one or two keys."""
    first, *rest = path.split("/")
    return {**INPUTS, first: {**INPUTS[first], rest[0]: value} if rest else value}


@pytest.mark.parametrize(
    ("path", "value", "trains"),
    [
        ("image", "localhost/slipway-trainer:2", True),
        ("image", UNKNOWN, True),
        ("namespace", "other", True),
        ("place", "abfs://files/slipway", False),
        ("tracking", {"kind": "wandb"}, False),
        ("kubeconfig", "renewed", False),
    ],
)
def test_what_can_alter_the_result_trains_again(path: str, value: object, trains: bool) -> None:
    """All else is changed in place; test_submitted.py has the fields of a job."""
    [(found, replaces)] = diff(changed(path, value)).items()
    assert (found.startswith(path.replace("/", ".")), replaces) == (True, trains)


@pytest.mark.parametrize(
    ("written", "more", "changes"),
    [
        ({"status": "2 ranks: 2 running"}, {"waiter": "image"}, {}),
        ({"status": "2 ranks: 2 running"}, {"waiter": "image", "image": "newer"}, {"image": False}),
        ({"result": "{}"}, {"image": "newer"}, {"image": False, "result": False}),
        (None, {"image": "newer"}, {"image": False, "result": True}),
        ({"status": "2 ranks: 2 running"}, {"waiter": "newer"}, {"result": False}),
        ({"status": "2 ranks: 2 running"}, {}, {"result": False}),
        (None, {"waiter": "image"}, {"result": True}),
        (None, {"kubeconfig": UNKNOWN}, {"kubeconfig": False}),
    ],
    ids=[
        *("goes on", "goes on with an older trainer", "has ended with it", "is gone with it"),
        *(
            "has an outdated waiter",
            "is to be waited for now",
            "is gone",
            "can't be asked in a preview",
        ),
    ],
)
def test_a_run_that_was_left_to_its_waiter_is_trained_again_only_if_it_is_gone(
    written: dict[str, str] | None, more: Any, changes: dict[str, bool], ledger: MagicMock
) -> None:
    ledger.read_values.return_value = written
    assert diff({**INPUTS, **more}, {"state": "Running", "run_id": "mine-1"}) == changes


def test_where_a_waiter_is_refused_the_run_is_waited_for_here(
    ledger: MagicMock, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited = RunResult(state="Succeeded", duration_seconds=1)
    monkeypatch.setattr(Training, "to_the_end", lambda _: waited)
    ledger.begin.side_effect = ApiException(status=403, reason="may not create roles")
    row = Quiet()
    result = PyTorchJobHandler().create({**INPUTS, "waiter": "image"}, row)[1]["result"]
    assert result["state"] == "Succeeded"
    assert "waiting here, because a waiter was refused: 403 may not create roles" in row.said
    ledger.begin.side_effect = ApiException(status=422)
    with pytest.raises(RuntimeError, match="422"):
        PyTorchJobHandler().create({**INPUTS, "waiter": "image"}, row)
    assert ledger.remove.call_count == 4, "what had been created would be waited for in vain"


def test_a_change_in_place_reaches_the_waiter_of_a_run_in_progress(ledger: MagicMock) -> None:
    ledger.resume.return_value, now = True, {**changed("job/stall", 600), "image": "newer"}
    ledger.follow.side_effect = Unreachable("no route")
    with pytest.raises(RuntimeError, match=r"no route\. If it has been submitted, it continues"):
        PyTorchJobHandler().update({**INPUTS, "result": {"state": "Running"}}, now, Quiet())
    resumed = ledger.resume.call_args.args[0]
    assert (resumed["job"]["stall"], resumed["image"]) == (600, INPUTS["image"])
    assert not ledger.remove.called


COST: dict[str, Any] = {"fewest": 1, "nodes": 2.0, "hourly": 1.8, "currency": "USD"}


def test_a_change_that_trains_again_says_what_that_costs() -> None:
    hook = {"url": "https://hidden", "on": ["failed"], "stack": "of mine"}
    assert diff({**INPUTS, "cost": COST, "hook": hook}) == {}, "neither is a change of the run"
    row, state = Row(), {**INPUTS, "result": {**SUCCEEDED, "duration_seconds": 600.4}}
    for path, value in (("job/timeout", 60), ("job/workers", 2)):
        PyTorchJobHandler().diff(state, {**changed(path, value), "cost": COST}, row)
    in_place, trains = row.said
    assert "costs" not in in_place
    told = "; costs USD 0.30 to 1.50 (2 nodes at 1.8 an hour), if it takes 600 s again"
    assert trains.endswith(told)


@pytest.mark.parametrize(
    ("result", "last"),
    [
        ({**SUCCEEDED, "run_id": "run-1"}, "run-1"),
        ({"state": "Failed", "run_id": "run-1", "last_succeeded": "run-0"}, "run-0"),
        ({"state": "CannotStart", "last_succeeded": "run-0"}, "run-0"),
        ({"state": "Failed", "run_id": "run-1"}, None),
    ],
)
def test_a_run_that_takes_the_place_of_another_knows_the_last_success_by_the_state(
    result: dict[str, Any], last: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is the same whichever machine runs `up`. It also knows what GPUs that idle cost."""
    trained: list[Training] = []

    def to_the_end(training: Training) -> RunResult:
        trained.append(training)
        return RunResult(state="Failed")

    monkeypatch.setattr(Training, "to_the_end", to_the_end)
    monkeypatch.setattr(lifecycle, "remove", lambda *_: None)
    monkeypatch.setattr(lifecycle, "archive", MagicMock())
    handler = PyTorchJobHandler()
    handler.delete({**INPUTS, "result": result}, Quiet())
    handler.create({**INPUTS, "cost": COST}, Quiet())
    handler.create(dict(INPUTS), Quiet(urn="of another job"))
    assert [each.submission.succeeded for each in trained] == [last, None]
    assert [each.cost for each in trained] == [TrainingCost(**COST), None]


def test_a_deletion_with_expired_credentials_says_what_to_do(ledger: MagicMock) -> None:
    ledger.remove.side_effect = ApiException(status=401, reason="Unauthorized")
    told = "can't be deleted: 401 Unauthorized; log in again, then run `make up`"
    with pytest.raises(RuntimeError, match=told):
        PyTorchJobHandler().delete({**INPUTS, "result": SUCCEEDED}, Quiet())


def test_the_log_of_a_run_is_searched_by_metrics_that_come_after_it() -> None:
    """And nothing is trained."""
    made([line(1, "epoch 1: acc=0.5 f1=0.25")], job="mine", run_id="mine-1")
    state = {**INPUTS, "result": {"state": "Succeeded", "run_id": "mine-1", "duration_seconds": 1}}
    for pattern, accuracy in (("acc=([0-9.]+)", 0.5), ("f1=([0-9.]+)", 0.25)):
        now = changed("job/metrics", {"accuracy": pattern})
        assert set(diff(now).values()) == {False}
        found = PyTorchJobHandler().update(state, now, Quiet())
        assert found["result"]["accuracy"] == accuracy
        state = {**now, **found}
    labelled = {**state, "job": {**state["job"], "labels": {"team": "vision"}}}
    kept = PyTorchJobHandler().update(state, labelled, Quiet())
    assert kept["result"] == state["result"], "what did not change is not looked for again"


@pytest.mark.parametrize(
    ("component", "state"), [("", "Succeeded"), ("", "Running"), ("training-", "Succeeded")]
)
def test_a_renamed_job_keeps_its_run_and_takes_its_logs(
    component: str, state: str, monkeypatch: pytest.MonkeyPatch, ledger: MagicMock
) -> None:
    """After two renamings of which the stack saw the last; once its run has ended."""
    monkeypatch.setattr(lifecycle, "remove", removed := MagicMock())
    monkeypatch.setattr(lifecycle, "_api", made := MagicMock(return_value=ledger))
    before = {**changed("job/name", "first"), "result": {**SUCCEEDED, "state": state}}
    History(of_job("dev", f"{component}first")).begin(Record(run_id="first-1", submitted=""))
    now = changed("job/name", "third")
    now["job"]["was"] = ["first", "second"]
    row = Quiet(f"urn:pulumi:dev::slipway::slipway:jobs:PyTorchJob::{component}third")
    if state == "Running":
        ledger.read_values.return_value = {"status": "2 ranks: 2 running"}
        assert not any(each.replace for each in PyTorchJobHandler().diff(before, now, row))
        with pytest.raises(RuntimeError, match="is still running; rename it after it finishes"):
            PyTorchJobHandler().update(before, now, row)
        ledger.read_values.return_value = {"result": ""}
        ledger.catch_up.return_value = RunResult.from_map(SUCCEEDED)
    assert PyTorchJobHandler().update(before, now, row)["result"] == SUCCEEDED
    assert {call.args[0]["job"]["name"] for call in made.call_args_list} == {"first"}
    assert [each.call_count for each in (removed, ledger.remove)] == [1, 1]
    records = History(of_job("dev", f"{component}third")).records()
    assert [each.run_id for each in records] == ["first-1"]
