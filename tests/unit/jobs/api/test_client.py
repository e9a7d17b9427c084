"""The API server as a run talks to it: what belongs to its job."""

import pytest

from core import kube
from jobs.api.client import JobApi
from tests.unit.fake_api import FakeApi, served
from tests.unit.jobs_objects import RUNNING, pod

PODS = "/api/v1/namespaces/jobs/pods"


@pytest.mark.parametrize(
    "owners", [None, [], [{"kind": "ReplicaSet", "name": "mine", "uid": "a"}],
               [{"kind": "PyTorchJob", "name": "mine-2", "uid": "a"}]],
)  # fmt: skip
def test_a_pod_that_no_job_of_that_name_owns_is_not_the_jobs(
    owners: list[dict[str, str]] | None,
) -> None:
    """It is neither seen nor patched, deleted or waited for, whatever its labels."""
    foreign, own = pod(1, state=RUNNING), pod(0, state=RUNNING)
    foreign["metadata"]["ownerReferences"] = owners
    with served(FakeApi()) as api:
        api.says("GET", PODS, {"items": [foreign, own], "metadata": {"resourceVersion": "1"}})
        client = JobApi(kube.connect(api.kubeconfig), "jobs", "mine")
        assert [each["metadata"]["name"] for each in client.pods()] == ["mine-master-0"]
        first = next(iter(client.watch_pods()))
        assert [each["metadata"]["name"] for each in first] == ["mine-master-0"]
