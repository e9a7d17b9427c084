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
from tests.unit.fake_api import Answer, FakeApi, served
from tests.unit.jobs_objects import REFUSED_LOGIN
from tests.unit.row import Row

JOBS = "/apis/kubeflow.org/v1/namespaces/slipway-jobs/pytorchjobs"
DEPLOYMENT = "/apis/apps/v1/namespaces/kubeflow/deployments/training-operator"
PODS = "/api/v1/namespaces/kubeflow/pods"
EVENTS = "/api/v1/namespaces/kubeflow/events"
SECRET = "/api/v1/namespaces/kubeflow/secrets/training-operator-webhook-cert"
DENIAL = (
    'admission webhook "validator.pytorchjob.training-operator.kubeflow.org" denied the request: '
    "spec.pytorchReplicaSpecs[Master].template.spec.containers: Required value"
)


def judged(job: Any) -> Answer:
    """Answer as the API server does that asks the operator's webhook."""
    template = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]
    if template["spec"]["containers"][0]["name"] == "pytorch":
        return 201, job
    return 403, {"kind": "Status", "message": DENIAL}


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


def reason(api: FakeApi) -> str:
    with pytest.raises(NotYet) as caught:
        Operator(inputs(api)).probe()
    return str(caught.value)


def test_it_is_ready_when_the_webhook_rejects_invalid_jobs_only(api: FakeApi) -> None:
    Operator(inputs(api)).probe()
    tried = [path for method, path, _ in api.asked if method == "POST"]
    assert tried == [f"{JOBS}?dryRun=All"] * 2, "nothing may be created by looking"


def test_it_is_not_ready_while_its_webhook_is_not_called(api: FakeApi) -> None:
    api.answers["POST", JOBS] = lambda job: (201, job)
    assert reason(api) == "the API server is not calling the operator's webhook yet"
    words = "Internal error occurred: failed calling webhook: connection refused"
    api.says("POST", JOBS, {"kind": "Status", "message": words}, status=500)
    assert reason(api) == f"the API server responded: {words}"


@pytest.mark.parametrize(
    "status", [{"readyReplicas": 0}, {"updatedReplicas": 0}, {"observedGeneration": 1}]
)
def test_an_old_pod_that_still_answers_does_not_count(api: FakeApi, status: Any) -> None:
    api.says("GET", DEPLOYMENT, rolled_out(**status))
    assert "Deployment kubeflow/training-operator" in reason(api)


def test_an_unreachable_api_server_is_reported(api: FakeApi) -> None:
    api.kubeconfig = api.kubeconfig.replace("127.0.0.1:", "127.0.0.1:1#")
    assert reason(api).startswith("the API server can't be reached: ")


def test_a_pod_gets_an_annotation_for_its_certificate_once_there_is_one(api: FakeApi) -> None:
    api.says("GET", SECRET, {"metadata": {"resourceVersion": "1"}})
    Operator(inputs(api)).deliver_certificate()
    api.says("GET", SECRET, {"metadata": {"resourceVersion": "7"}, "data": {"tls.crt": "Yg=="}})
    Operator(inputs(api)).deliver_certificate()
    (change,) = (body for method, _, body in api.asked if method == "PATCH")
    assert change == {"metadata": {"annotations": {"slipway.dev/certificate": "7"}}}


def test_a_create_returns_at_once_when_all_is_ready(api: FakeApi) -> None:
    row = Row()
    made = OperatorReadyHandler(stop_all).create(inputs(api), row)
    assert made == ("kubeflow/training-operator", {})
    assert row.said == []


@pytest.mark.usefixtures("quick")
def test_a_create_waits_and_says_for_what(api: FakeApi) -> None:
    tries: list[Any] = []

    def late(_body: Any) -> Answer:
        tries.append(None)
        return 200, rolled_out(readyReplicas=0 if len(tries) < 3 else 1)

    api.answers["GET", DEPLOYMENT] = late
    row = Row()
    OperatorReadyHandler(stop_all).create(inputs(api), row)
    assert len(tries) == 3
    # Once, and not at each look.
    (said,) = row.said
    assert "0 of 1 pods" in said


@pytest.mark.usefixtures("quick")
def test_the_timeout_error_includes_conditions_pods_and_events(api: FakeApi) -> None:
    condition = {"type": "Available", "status": "False", "message": "no minimum availability"}
    api.says("GET", DEPLOYMENT, rolled_out(readyReplicas=0, conditions=[condition]))
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    container = {"name": "op", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
    pod = {
        "metadata": {"name": "op-1", "namespace": "kubeflow", "uid": "u1"},
        "status": {"phase": "Pending", "containerStatuses": [{**container, "state": waiting}]},
    }
    api.says("GET", PODS, {"items": [pod]})
    event = {
        "type": "Warning",
        "reason": "Failed",
        "message": "cannot pull",
        "involvedObject": {"uid": "u1"},
        "metadata": {"name": "e"},
    }
    other = {**event, "message": "of another pod", "involvedObject": {"uid": "u2"}}
    api.says("GET", EVENTS, {"items": [other, event]})
    api.says("GET", f"{PODS}/op-1/log", "first line\nlast line\n")
    with pytest.raises(TimeoutError) as caught:
        OperatorReadyHandler(stop_all).create(inputs(api), Row())
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
    state = {"waiting": {"reason": "ImagePullBackOff", "message": REFUSED_LOGIN}}
    status = {"phase": "Pending", "containerStatuses": [{"name": "op", "state": state}]}
    metadata = {"name": "op-1", "namespace": "kubeflow", "uid": "u1"}
    api.says("GET", PODS, {"items": [{"metadata": metadata, "status": status}]})
    api.says("GET", EVENTS, {"items": []})
    row = Row()

    def rolling(_body: Any) -> Answer:
        return 200, rolled_out(readyReplicas=1 if any("role" in each for each in row.said) else 0)

    api.answers["GET", DEPLOYMENT] = rolling
    OperatorReadyHandler(stop_all).create({**inputs(api), **policy}, row)
    assert any("up to ten minutes" in each for each in row.said)


@pytest.mark.usefixtures("quick")
def test_a_timeout_is_raised_even_when_nothing_can_be_read(api: FakeApi) -> None:
    api.answers.clear()
    with pytest.raises(TimeoutError, match="can't be read"):
        OperatorReadyHandler(stop_all).create(inputs(api), Row())


def test_ctrl_c_ends_the_wait_at_once(api: FakeApi) -> None:
    api.says("GET", DEPLOYMENT, rolled_out(readyReplicas=0))
    row = Row()
    row.cancelled.set()
    with pytest.raises(InterruptedError):
        OperatorReadyHandler(stop_all).create(inputs(api), row)


def changes(api: FakeApi, **new: Any) -> list[Change]:
    """Return what an `up` finds changed."""
    return OperatorReadyHandler(stop_all).diff(inputs(api), {**inputs(api), **new}, Row())


def test_an_up_waits_only_for_an_operator_that_is_not_ready_any_more(api: FakeApi) -> None:
    assert changes(api) == []
    api.answers["POST", JOBS] = lambda job: (201, job)
    assert changes(api) == [Change("deployment", drift=True)]


@pytest.mark.parametrize(("key", "value"), [("rollout", "y"), ("kubeconfig", UNKNOWN)])
def test_what_is_new_or_not_there_yet_is_not_asked(api: FakeApi, key: str, value: Any) -> None:
    assert changes(api, **{key: value}) == [Change(key)]
    assert api.asked == []


def of_somebody(api: FakeApi, **known: Any) -> dict[str, Any]:
    existing = {"judges": True, **known}
    return {"kubeconfig": api.kubeconfig, "jobNamespace": "slipway-jobs", "existing": existing}


SEEN = {"namespace": "kubeflow", "deployment": "training-operator"}


def test_an_existing_operator_is_only_read_and_probed(api: FakeApi) -> None:
    row = Row()
    made = OperatorReadyHandler(stop_all).create(of_somebody(api, **SEEN), row)
    assert made == ("kubeflow/training-operator", {})
    assert [method for method, _, _ in api.asked] == ["GET", "POST", "POST"]


def test_one_that_may_not_be_seen_is_ready_when_its_webhook_judges(api: FakeApi) -> None:
    api.says("GET", DEPLOYMENT, {"kind": "Status", "message": "forbidden"}, status=403)
    Operator(of_somebody(api, **SEEN)).probe()
    api.asked.clear()
    assert OperatorReadyHandler(stop_all).create(of_somebody(api), Row()) == ("PyTorchJobs", {})
    assert [method for method, _, _ in api.asked] == ["POST", "POST"]


def test_the_stacks_own_operator_has_to_be_seen(api: FakeApi) -> None:
    api.says("GET", DEPLOYMENT, {"kind": "Status", "message": "forbidden"}, status=403)
    assert reason(api) == "the API server responded: forbidden"


def test_an_existing_operator_needs_one_ready_pod(api: FakeApi) -> None:
    api.says("GET", DEPLOYMENT, rolled_out(updatedReplicas=0))
    Operator(of_somebody(api, **SEEN)).probe()
    api.says("GET", DEPLOYMENT, rolled_out(readyReplicas=0))
    with pytest.raises(NotYet, match="0 of 1 pods"):
        Operator(of_somebody(api, **SEEN)).probe()


def test_one_without_a_webhook_is_ready_when_it_runs(api: FakeApi) -> None:
    api.answers["POST", JOBS] = lambda job: (201, job)
    Operator(of_somebody(api, **{**SEEN, "judges": False})).probe()
    with pytest.raises(NotYet):
        Operator(of_somebody(api, **SEEN)).probe()


@pytest.mark.usefixtures("quick")
def test_of_one_that_may_not_be_seen_the_error_says_whom_to_ask(api: FakeApi) -> None:
    api.answers["POST", JOBS] = lambda job: (201, job)
    with pytest.raises(TimeoutError, match="Ask whoever installed it"):
        OperatorReadyHandler(stop_all).create(of_somebody(api), Row())


def test_up_waits_for_an_existing_operator_that_became_unready(api: FakeApi) -> None:
    api.answers["POST", JOBS] = lambda job: (201, job)
    inputs_ = of_somebody(api)
    found = OperatorReadyHandler(stop_all).diff(inputs_, inputs_, Row())
    assert found == [Change("existing", drift=True)]


def test_in_a_namespace_that_others_use_no_run_is_stopped(api: FakeApi) -> None:
    stopped: list[str] = []
    handler = OperatorReadyHandler(lambda _, name, __: stopped.append(name))
    handler.delete({**of_somebody(api), "shared": True}, Row())
    assert stopped == []
    handler.delete(of_somebody(api), Row())
    assert stopped == ["slipway-jobs"]
