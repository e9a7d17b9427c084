"""The API server as a run talks to it: what belongs to its job, and whole lines of its logs."""

import pytest
from kubernetes.client.exceptions import ApiException

from core import kube
from jobs.api.client import JobApi
from jobs.api.lines import LONGEST, Line
from tests.unit.fake_api import FakeApi, served
from tests.unit.jobs_objects import runs

PODS = "/api/v1/namespaces/jobs/pods"


@pytest.mark.parametrize("owner", [("ReplicaSet", "mine"), ("PyTorchJob", "mine-2"), None], ids=str)
def test_a_pod_of_another_owner_is_not_the_jobs(owner: tuple[str, str] | None) -> None:
    """It is neither seen nor patched, deleted or waited for, whatever its labels."""
    foreign, own = runs(1), runs(0)
    owners = None if owner is None else [dict(zip(("kind", "name"), owner, strict=True))]
    foreign["metadata"]["ownerReferences"] = owners
    with served(FakeApi()) as api:
        api.says("GET", PODS, {"items": [foreign, own], "metadata": {"resourceVersion": "1"}})
        client = JobApi(kube.connect(api.kubeconfig), "jobs", "mine")
        assert [each["metadata"]["name"] for each in client.pods()] == ["mine-master-0"]


def test_an_api_server_that_has_not_read_its_roles_is_asked_again() -> None:
    """It refuses everything for a moment after its start, which is no refusal of the job."""
    forbidden = {"kind": "Status", "message": "forbidden"}
    with served(FakeApi()) as api:
        client = JobApi(kube.connect(api.kubeconfig), "jobs", "mine")

        def starts(_body: object) -> tuple[int, object]:
            api.says("GET", PODS, {"items": []})
            return 403, forbidden

        api.says("GET", "/readyz", "[-]informer-sync failed", status=500)
        api.answers["GET", PODS] = starts
        assert client.pods() == []
        api.says("GET", "/readyz", "ok")
        api.says("GET", PODS, forbidden, status=403)
        with pytest.raises(ApiException):
            client.pods()
        assert [path for _, path, _ in api.asked].count("/readyz") == 2


def test_waits_beside_each_other_list_nodes_and_events_once() -> None:
    """A thousand waits would list a thousand nodes each; an error is as old for all of them."""
    with served(FakeApi()) as api:
        waits = [JobApi(kube.connect(api.kubeconfig), "jobs", f"mine-{each}") for each in range(20)]
        for path, named in (("/api/v1/nodes", "node"), ("/api/v1/namespaces/jobs/events", "event")):
            api.says("GET", path, {"items": [{"involvedObject": {"uid": named}}]})
        for each in waits:
            assert each.nodes(60) == [{"involvedObject": {"uid": "node"}}]
            assert len(each.events({"event", "node"}, 60)) == 1
        assert len(api.asked) == 2
        assert waits[0].events({"another"}) == [], "listed again"
        api.says("GET", "/api/v1/nodes", {"message": "no"}, status=403)
        api.says("GET", "/readyz", "ok")
        with pytest.raises(ApiException):
            waits[0].nodes()
        asked = len(api.asked)
        for each in waits:
            with pytest.raises(ApiException):
                each.nodes(60)
        assert len(api.asked) == asked


LOG = f"{PODS}/mine-master-0/log"
STAMP = "2026-01-01T00:00:01.000000000Z"


@pytest.mark.parametrize(
    ("sent", "texts"),
    [
        (f"{STAMP} one\n{STAMP} two\n", ["one", "two"]),
        (f"{STAMP} one\n{STAMP} unfini", ["one"]),
        (f"{STAMP} one\nfailed to watch the log\n{STAMP} two\n", ["one", "two"]),
        (f"{STAMP} {'x' * 3 * LONGEST}\n{STAMP} two\n", ["x" * (LONGEST - 31), "two"]),
        (f"{STAMP} {'ü' * 40_000}\n", ["ü" * 40_000]),
    ],
)
def test_lines_of_a_log_are_whole_and_bounded(sent: str, texts: list[str]) -> None:
    with served(FakeApi()) as server:
        server.says("GET", LOG, sent)
        api = JobApi.connect(server.kubeconfig, "jobs", "mine")
        batches = api.log_lines("mine-master-0", since="2026-01-01T00:00:00Z", previous=True)
        found = [line for batch in batches for line in batch]
        [(_, path, _)] = server.asked
    assert "previous=true&follow=false&sinceTime=2026-01-01T00%3A00%3A00Z" in path
    assert found == [Line(STAMP, text) for text in texts]
