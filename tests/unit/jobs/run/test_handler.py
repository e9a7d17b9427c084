"""When a run is trained again, changed in place, or left alone; and what its gate lets pass."""

import copy
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from core.handler import UNKNOWN
from jobs.catalog import CATALOG
from jobs.run.gate import GateHandler
from jobs.run.handler import PyTorchJobHandler
from jobs.spec import manifest
from tests.unit.row import Row


@dataclass
class Quiet:
    """A context that nobody reads."""

    urn: str = "urn"
    cancelled: threading.Event = field(default_factory=threading.Event)

    def status(self, message: str) -> None: ...

    def info(self, message: str) -> None: ...

    def warn(self, message: str) -> None: ...


INPUTS: Mapping[str, Any] = {
    "kubeconfig": "kubeconfig",
    "namespace": "slipway-jobs",
    "manifest": manifest(
        CATALOG["mnist-gloo"],
        namespace="slipway-jobs",
        service_account="slipway-job",
        trainer_image="localhost/slipway-trainer:1",
    ),
    "timeoutSeconds": 3600,
    "startTimeoutSeconds": 300,
}
SUCCEEDED = {"state": "Succeeded", "reason": "", "accuracy": 0.97}


def diff(inputs: Mapping[str, Any], result: Mapping[str, Any] = SUCCEEDED) -> dict[str, bool]:
    """Return what differs from a run with INPUTS, and whether that trains again."""
    changes = PyTorchJobHandler().diff("id", {**INPUTS, "result": result}, dict(inputs), Quiet())
    return {change.path: change.replace for change in changes}


def changed(path: str, value: object) -> dict[str, Any]:
    inputs: dict[str, Any] = copy.deepcopy(dict(INPUTS))
    *parents, last = path.split("/")
    place: Any = inputs
    for parent in parents:
        place = place[parent]
    place[last] = value
    return inputs


def test_a_run_that_succeeded_is_left_alone() -> None:
    assert diff(INPUTS) == {}


@pytest.mark.parametrize("state", ["Failed", "TimedOut", "CannotStart"])
def test_a_run_that_did_not_succeed_is_trained_again_by_a_plain_up(state: str) -> None:
    assert diff(INPUTS, {"state": state}) == {"result": True}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("manifest/metadata/name", "other"),
        ("manifest/metadata/namespace", "other"),
        ("manifest/spec/pytorchReplicaSpecs/Worker/replicas", 2),
        ("manifest/spec/pytorchReplicaSpecs/Worker/restartPolicy", "Never"),
        ("manifest/spec/pytorchReplicaSpecs/Master/template", {}),
        ("namespace", "other"),
    ],
)
def test_what_can_alter_the_result_trains_again(path: str, value: object) -> None:
    found = diff(changed(path, value))
    assert found
    assert all(found.values())
    assert all(each.startswith(path.replace("/", ".")) for each in found)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("manifest/metadata/labels/team", "vision"),
        ("manifest/metadata/annotations", {"note": "x"}),
        ("manifest/spec/runPolicy/ttlSecondsAfterFinished", 60),
        ("manifest/spec/runPolicy/backoffLimit", 5),
        ("timeoutSeconds", 60),
        ("kubeconfig", "renewed"),
    ],
)
def test_what_cannot_alter_the_result_is_changed_in_place(path: str, value: object) -> None:
    found = diff(changed(path, value))
    assert len(found) == 1
    assert not any(found.values())


def test_an_image_that_is_not_known_yet_trains_again() -> None:
    inputs = copy.deepcopy(dict(INPUTS))
    for spec in inputs["manifest"]["spec"]["pytorchReplicaSpecs"].values():
        spec["template"]["spec"]["containers"][0]["image"] = UNKNOWN
    assert set(diff(inputs).values()) == {True}


def test_a_refresh_keeps_the_result_without_asking_the_cluster() -> None:
    kept = PyTorchJobHandler().read("id", {**INPUTS, "result": SUCCEEDED}, Quiet())
    assert kept == {"result": SUCCEEDED}


def test_a_gate_lets_a_success_pass() -> None:
    inputs = {"job": "mine", "result": SUCCEEDED}
    assert GateHandler().create(inputs, Quiet()) == ("mine", {})


def test_a_gate_raises_with_the_reason() -> None:
    inputs = {"job": "mine", "result": {"state": "Failed", "reason": "rank 1 exited with code 3"}}
    with pytest.raises(RuntimeError, match="job mine ended Failed: rank 1 exited with code 3"):
        GateHandler().create(inputs, Quiet())


@pytest.mark.parametrize("result", [{**SUCCEEDED, "accuracy": 0.5}, UNKNOWN])
def test_a_gate_judges_every_new_result_anew(result: object) -> None:
    state = {"job": "mine", "result": SUCCEEDED}
    inputs = {"job": "mine", "result": result}
    (change,) = GateHandler().diff("mine", state, inputs, Quiet())
    assert change.replace
    assert GateHandler().diff("mine", state, dict(state), Quiet()) == []


@pytest.mark.parametrize("accuracy", [0.97, 0.98])
def test_a_gate_lets_the_accuracy_pass_that_was_asked_for(accuracy: float) -> None:
    inputs = {"job": "mine", "result": {**SUCCEEDED, "accuracy": accuracy}, "minAccuracy": 0.97}
    assert GateHandler().create(inputs, Quiet()) == ("mine", {})


def test_a_gate_says_by_how_much_an_accuracy_was_missed_and_that_nothing_is_trained_again() -> None:
    inputs = {"job": "mine", "result": {**SUCCEEDED, "accuracy": 0.96}, "minAccuracy": 0.97}
    with pytest.raises(RuntimeError, match=r"0\.9600, which is 0\.0100 less than .* 0\.97\."):
        GateHandler().create(inputs, Quiet())


def test_a_gate_judges_by_the_data_set_that_the_run_was_trained_on() -> None:
    minimum = {"cifar10": 0.5, "fashion-mnist-as-cifar10": 0.84}
    result = {**SUCCEEDED, "accuracy": 0.6, "dataset": "cifar10"}
    inputs = {"job": "mine", "result": result, "minAccuracy": minimum}
    assert GateHandler().create(inputs, Quiet()) == ("mine", {})
    other = {**inputs, "result": {**result, "dataset": "fashion-mnist-as-cifar10"}}
    with pytest.raises(RuntimeError, match=r"0\.2400 less"):
        GateHandler().create(other, Quiet())
    with pytest.raises(RuntimeError, match="its result is for mnist"):
        GateHandler().create({**inputs, "result": {**result, "dataset": "mnist"}}, Quiet())


def test_a_gate_cannot_judge_an_accuracy_that_was_not_told() -> None:
    inputs = {"job": "mine", "result": {"state": "Succeeded"}, "minAccuracy": 0.97}
    with pytest.raises(RuntimeError, match="no accuracy was reported"):
        GateHandler().create(inputs, Quiet())


COST = {"fewest": 1, "nodes": 2.0, "hourly": 1.8, "currency": "USD"}


def test_another_price_is_no_change() -> None:
    assert diff({**INPUTS, "cost": COST}) == {}


def test_a_change_that_trains_again_says_what_that_costs() -> None:
    row = Row()
    state = {**INPUTS, "result": {**SUCCEEDED, "duration_seconds": 600.4}}
    PyTorchJobHandler().diff("id", state, {**changed("timeoutSeconds", 60), "cost": COST}, row)
    again = {**changed("manifest/metadata/name", "other"), "cost": COST}
    PyTorchJobHandler().diff("id", state, again, row)
    in_place, trains = row.said
    assert "costs" not in in_place
    told = "; costs USD 0.30 to 1.50 (2 nodes at 1.8 an hour), if it takes 600 s again"
    assert trains.endswith(told)
