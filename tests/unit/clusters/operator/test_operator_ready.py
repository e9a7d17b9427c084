"""The operator is ready once its webhook judges PyTorchJobs, and waiting for it has an end."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from clusters.cloud_reports import AZURE_LATE_ROLES, as_input
from clusters.operator import operator_ready as operator_handler
from clusters.operator.operator_ready import Operator, OperatorReadyHandler
from core.handler import UNKNOWN, Change
from core.wait import NotYet
from jobs.run.submit import stop_all
from tests.unit.fake_api import Answer, FakeApi, judged, served
from tests.unit.jobs_objects import REFUSED_LOGIN
from tests.unit.row import Row

JOBS = "/apis/kubeflow.org/v1/namespaces/slipway-jobs/pytorchjobs"
DEPLOYMENT = "/apis/apps/v1/namespaces/kubeflow/deployments/training-operator"
PODS = "/api/v1/namespaces/kubeflow/pods"
EVENTS = "/api/v1/namespaces/kubeflow/events"
SECRET = "/api/v1/namespaces/kubeflow/secrets/training-operator-webhook-cert"


def rolled_out(**status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "training-operator", "generation": 2},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"control-plane": "kubeflow-training-operator"}},
            "template": {},
        },
        "status": {"observedGeneration": 2, "updatedReplicas": 1, "readyReplicas": 1, **status},
    }


def waiting_pod(message: str) -> dict[str, Any]:
    """Return the operator's pod, whose image can't be pulled."""
    state = {"waiting": {"reason": "ImagePullBackOff", "message": message}}
    status = {"phase": "Pending", "containerStatuses": [{"name": "op", "state": state}]}
    metadata = {"name": "op-1", "namespace": "kubeflow", "uid": "u1"}
    return {"metadata": metadata, "status": status}


@pytest.fixture
def api() -> Iterator[FakeApi]:
    """A cluster whose operator is ready."""
    ready = FakeApi()
    ready.says("GET", DEPLOYMENT, rolled_out())
    ready.says("GET", SECRET, {"metadata": {"resourceVersion": "7"}, "data": {"tls.crt": "Yg=="}})
    pod = {"metadata": {"name": "op-1", "namespace": "kubeflow", "uid": "u1"}}
    ready.says("GET", PODS, {"items": [{**pod, "status": {"phase": "Running"}}]})
    ready.says("PATCH", f"{PODS}/op-1", pod)
    ready.answers["POST", JOBS] = judged
    with served(ready):
        yield ready


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """End the wait after a moment."""
    monkeypatch.setattr(operator_handler, "LIMIT_SECONDS", 2)
    monkeypatch.setattr(operator_handler, "_POLL_SECONDS", 0.05)


def inputs(api: FakeApi) -> dict[str, Any]:
    return {
        "kubeconfig": api.kubeconfig,
        "deployment": "training-operator",
        "jobNamespace": "slipway-jobs",
        "rollout": "x",
    }


DEPLOYED, TRIED = ("GET", DEPLOYMENT), ("POST", JOBS)
UNCALLED = (*TRIED, {"kind": "PyTorchJob"}, 201)
"""The API server takes any job."""
HIDDEN = (*DEPLOYED, {"kind": "Status", "message": "forbidden"}, 403)
BROKEN = (*TRIED, {"kind": "Status", "message": "failed calling webhook: refused"}, 500)
SEEN = {"namespace": "kubeflow", "deployment": "training-operator", "judges": True}


def rolling(**status: int) -> tuple[Any, ...]:
    return (*DEPLOYED, rolled_out(**status), 200)


def of_somebody(api: FakeApi, **known: Any) -> dict[str, Any]:
    """Return the inputs for an existing operator of which this is known."""
    existing = {"judges": True, **known}
    return {"kubeconfig": api.kubeconfig, "jobNamespace": "slipway-jobs", "existing": existing}


def made(inputs: dict[str, Any], row: Row | None = None) -> tuple[str, Any]:
    return OperatorReadyHandler(stop_all).create(inputs, row or Row())


def test_an_operator_is_ready_when_its_webhook_rejects_invalid_jobs_only(api: FakeApi) -> None:
    row = Row()
    assert made(inputs(api), row) == ("kubeflow/training-operator", {})
    assert row.said == []
    tried = [path for method, path, _ in api.asked if method == "POST"]
    assert tried == [f"{JOBS}?dryRun=All"] * 2, "nothing may be created by looking"
    # Its pod reads its certificate at once.
    (change,) = (body for method, _, body in api.asked if method == "PATCH")
    assert change == {"metadata": {"annotations": {"slipway.dev/certificate": "7"}}}


@pytest.mark.parametrize(
    ("answer", "existing", "missing"),
    [
        (UNCALLED, None, "the API server is not calling the operator's webhook yet"),
        (UNCALLED, SEEN, "the API server is not calling the operator's webhook yet"),
        (BROKEN, None, "the API server responded: failed calling webhook: refused"),
        # An old pod that still answers does not count.
        (rolling(readyReplicas=0), None, "Deployment kubeflow/training-operator"),
        (rolling(updatedReplicas=0), None, "Deployment kubeflow/training-operator"),
        (rolling(observedGeneration=1), None, "Deployment kubeflow/training-operator"),
        (rolling(readyReplicas=0), SEEN, "0 of 1 pods"),
        # The stack's own operator has to be seen.
        (HIDDEN, None, "the API server responded: forbidden"),
    ],
)
def test_an_operator_that_is_not_ready_says_what_is_missing(
    api: FakeApi, answer: Any, existing: dict[str, Any] | None, missing: str
) -> None:
    api.says(*answer)
    given = inputs(api) if existing is None else of_somebody(api, **existing)
    with pytest.raises(NotYet, match=missing):
        Operator(given).probe()


@pytest.mark.parametrize(
    ("answer", "existing"),
    [
        # One pod is enough, though it is not of the newest version.
        (rolling(updatedReplicas=0), SEEN),
        # Where its Deployment may not be seen, its webhook counts.
        (HIDDEN, SEEN),
        # One without a webhook is ready when it runs.
        (UNCALLED, {**SEEN, "judges": False}),
    ],
)
def test_an_existing_operator_is_ready_as_far_as_it_can_be_seen(
    api: FakeApi, answer: Any, existing: dict[str, Any]
) -> None:
    api.says(*answer)
    Operator(of_somebody(api, **existing)).probe()


@pytest.mark.usefixtures("quick")
def test_a_create_waits_and_says_once_for_what(api: FakeApi) -> None:
    ready = iter([0, 0, 1])
    api.answers[DEPLOYED] = lambda _body: (200, rolled_out(readyReplicas=next(ready)))
    api.says("GET", SECRET, {"metadata": {"resourceVersion": "1"}})
    row = Row()
    made(inputs(api), row)
    (said,) = row.said
    assert "0 of 1 pods" in said
    assert "PATCH" not in {method for method, _, _ in api.asked}, "there is no certificate yet"


@pytest.mark.usefixtures("quick")
def test_the_timeout_error_includes_conditions_pods_and_events(api: FakeApi) -> None:
    condition = {"type": "Available", "status": "False", "message": "no minimum availability"}
    api.says("GET", DEPLOYMENT, rolled_out(readyReplicas=0, conditions=[condition]))
    api.says("GET", PODS, {"items": [waiting_pod("no such image")]})
    about = {"type": "Warning", "reason": "Failed", "metadata": {"name": "e"}}
    own = {**about, "message": "cannot pull", "involvedObject": {"uid": "u1"}}
    another = {**about, "message": "of another pod", "involvedObject": {"uid": "u2"}}
    api.says("GET", EVENTS, {"items": [another, own]})
    api.says("GET", f"{PODS}/op-1/log", "first line\nlast line\n")
    with pytest.raises(TimeoutError) as caught:
        made(inputs(api))
    text = str(caught.value)
    for words in (
        "timed out after 2 s of waiting for the training operator: 0 of 1 pods",
        "Available=False, no minimum availability",
        "ImagePullBackOff no such image",
        "cannot pull",
        "last line",
        "kubectl --namespace kubeflow describe deployment training-operator",
    ):
        assert words in text
    assert "of another pod" not in text
    assert "made-up" not in text, "the token is in the error"


@pytest.mark.usefixtures("quick")
def test_an_image_refused_for_want_of_a_new_role_has_more_time(api: FakeApi) -> None:
    policy = as_input(replace(AZURE_LATE_ROLES, seconds=20))
    api.says("GET", PODS, {"items": [waiting_pod(REFUSED_LOGIN)]})
    api.says("GET", EVENTS, {"items": []})
    row = Row()

    def late(_body: Any) -> Answer:
        return 200, rolled_out(readyReplicas=1 if any("role" in each for each in row.said) else 0)

    api.answers[DEPLOYED] = late
    made({**inputs(api), **policy}, row)
    assert any("up to ten minutes" in each for each in row.said)


@pytest.mark.usefixtures("quick")
def test_a_timeout_of_what_may_not_be_seen_says_so_or_whom_to_ask(api: FakeApi) -> None:
    api.says(*UNCALLED)
    with pytest.raises(TimeoutError, match="Ask whoever installed it"):
        made(of_somebody(api))
    api.answers.clear()
    with pytest.raises(TimeoutError, match="can't be read"):
        made(inputs(api))


def changes(before: dict[str, Any], **new: Any) -> list[Change]:
    """Return what an `up` finds changed."""
    return OperatorReadyHandler(stop_all).diff(before, {**before, **new}, Row())


def test_an_up_waits_only_for_an_operator_that_is_not_ready_any_more(api: FakeApi) -> None:
    assert changes(inputs(api)) == changes(of_somebody(api)) == []
    api.says(*UNCALLED)
    assert changes(inputs(api)) == [Change("deployment", drift=True)]
    assert changes(of_somebody(api)) == [Change("existing", drift=True)]


@pytest.mark.parametrize(("key", "value"), [("rollout", "y"), ("kubeconfig", UNKNOWN)])
def test_what_is_new_or_not_there_yet_is_not_asked(api: FakeApi, key: str, value: Any) -> None:
    assert changes(inputs(api), **{key: value}) == [Change(key)]
    assert api.asked == []


@pytest.mark.parametrize(
    ("known", "name", "asked"),
    [
        (SEEN, "kubeflow/training-operator", ["GET", "POST", "POST"]),
        ({}, "PyTorchJobs", ["POST", "POST"]),
    ],
)
def test_an_existing_operator_is_only_read_and_probed(
    api: FakeApi, known: dict[str, Any], name: str, asked: list[str]
) -> None:
    assert made(of_somebody(api, **known)) == (name, {})
    assert [method for method, _, _ in api.asked] == asked


def test_runs_are_stopped_but_in_a_namespace_that_others_use(api: FakeApi) -> None:
    stopped: list[str] = []
    handler = OperatorReadyHandler(lambda _, name, __: stopped.append(name))
    handler.delete({**of_somebody(api), "jobNamespace": "of-others", "shared": True}, Row())
    handler.delete(of_somebody(api), Row())
    assert stopped == ["slipway-jobs"]
