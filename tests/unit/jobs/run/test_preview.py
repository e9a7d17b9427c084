"""What a preview shows of a run: its PyTorchJob, what it needs, and the API server's answer."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from clusters.nodes import Capacity
from core.fields import cores
from core.handler import SECRET, UNKNOWN
from jobs.config import CATALOG
from jobs.model.manifest import manifest
from jobs.plan import Schedule, described, shares
from jobs.run.lifecycle import PyTorchJobHandler
from jobs.run.preview import render, validate_admission
from tests.unit.fake_api import FakeApi, served
from tests.unit.images.objects import Listener
from tests.unit.jobs.run.test_lifecycle import INPUTS, SUBMISSION
from tests.unit.jobs_declared import rendered

JOBS = "/apis/kubeflow.org/v1/namespaces/slipway-jobs/pytorchjobs"


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with served(FakeApi()) as made:
        yield made


def inputs(kubeconfig: object, **others: Any) -> dict[str, Any]:
    return {**copy.deepcopy(dict(INPUTS)), "kubeconfig": kubeconfig, **others}


def test_a_cluster_that_is_not_there_yet_is_not_asked() -> None:
    assert "its cluster does not exist yet" in validate_admission(inputs(UNKNOWN))


@pytest.mark.parametrize("status", [201, 409])
def test_a_job_is_admitted_also_when_there_is_one_of_its_name(status: int, api: FakeApi) -> None:
    api.says("POST", JOBS, {"message": "already exists"}, status)
    assert validate_admission(inputs(api.kubeconfig)) == "the API server admits it"
    ((method, path, body),) = api.asked
    assert (method, path) == ("POST", f"{JOBS}?dryRun=All")
    assert body == yaml.safe_load(yaml.safe_dump(manifest(SUBMISSION)))


def test_what_is_not_known_yet_is_asked_for_with_a_stand_in(api: FakeApi) -> None:
    api.says("POST", JOBS, {}, 201)
    validate_admission(inputs(api.kubeconfig, image=UNKNOWN))
    sent = yaml.safe_dump(api.asked[0][2])
    assert "image: not-known-yet" in sent


@pytest.mark.parametrize("status", [400, 403, 413, 422])
def test_a_refusal_is_raised_in_the_servers_words(status: int, api: FakeApi) -> None:
    api.says("POST", JOBS, {"message": "spec.x: Required value"}, status)
    with pytest.raises(RuntimeError, match=r"mnist-gloo would be refused: spec.x: Required value"):
        validate_admission(inputs(api.kubeconfig))


@pytest.mark.parametrize("status", [404, 500])
def test_failed_validation_is_reported_alone(status: int, api: FakeApi) -> None:
    api.says("POST", JOBS, {"message": "failed calling webhook"}, status)
    reason = "as the API server could not check it: failed calling webhook"
    assert validate_admission(inputs(api.kubeconfig)) == f"not validated, {reason}"


@pytest.mark.parametrize("kubeconfig", ["{}", None])
def test_an_api_server_that_does_not_answer_is_no_refusal(kubeconfig: str | None) -> None:
    if kubeconfig is None:
        with served(FakeApi()) as gone:
            kubeconfig = gone.kubeconfig
    assert validate_admission(inputs(kubeconfig)).startswith("not validated")


def test_secrets_and_what_is_not_known_yet_are_shown_as_such() -> None:
    unknown = rendered(CATALOG["mnist-gloo"], UNKNOWN)
    master = unknown["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]
    master["containers"][0]["env"] = [{"name": "TOKEN", "value": SECRET}]
    shown = render(unknown)
    assert "image: <known later>" in shown
    assert "value: <secret>" in shown


def test_what_is_shown_is_the_manifest_its_kind_and_name_first() -> None:
    complete = rendered(CATALOG["mnist-gloo"])
    shown = render(complete)
    assert yaml.safe_load(shown) == yaml.safe_load(yaml.safe_dump(complete))
    first = "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata:\n  name: mnist"
    assert shown.startswith(first)


@pytest.mark.parametrize("result", ["Succeeded", "Failed"])
def test_a_success_is_not_given_up_for_a_refused_run(result: str, api: FakeApi) -> None:
    api.says("POST", JOBS, {"message": "spec.x: Required value"}, 422)
    old = {**inputs(api.kubeconfig), "result": {"state": result}}
    new, handler = inputs(api.kubeconfig, image="another"), PyTorchJobHandler()
    changes = handler.diff(old, new, Listener())
    assert any(change.replace for change in changes) is (result == "Failed")
    if result == "Failed":
        assert api.asked == []
        return
    refusal = r"would be refused: spec.x: Required value"
    with pytest.raises(RuntimeError, match=refusal):
        handler.update(old, new, Listener())
    with pytest.raises(RuntimeError, match=refusal):
        handler.preview(old, new, new, Listener())
    assert handler.diff(old, inputs(api.kubeconfig), Listener()) == []


def test_needs_count_every_pod_and_gpus() -> None:
    needed = described(shares(CATALOG["mnist-nccl"]))
    assert needed == "2 pods with 4 cores, 2 GiB, 2 x nvidia.com/gpu in total"


def test_the_needs_of_all_jobs_stand_against_what_the_cluster_has() -> None:
    capacity = Capacity(cpu=cores("1900m"), memory=4 * 2**30, gpus=0, nodes=1)
    both = [CATALOG["mnist-gloo"], CATALOG["cifar-gloo"]]
    assert Schedule(both, capacity).text() == (
        "the stack's 2 jobs need 6 pods with 3.2 cores, 5 GiB in total; the cluster has "
        "1 node with 1.9 cores, 4 GiB for jobs; the jobs to train run in this order: mnist-gloo; "
        "then cifar-gloo"
    )
    alone = "the cluster has 1 node with 1.9 cores, 4 GiB for jobs"
    assert Schedule(both[:1], capacity).text() == alone
    assert Schedule(both[:1], None).text() == ""
