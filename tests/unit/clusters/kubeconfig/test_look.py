"""What a cluster has is seen as far as the account may see it, and nothing is changed."""

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import tenacity
import yaml

from clusters.image_registry import Images
from clusters.kubeconfig.choice import Choice, Unusable
from clusters.kubeconfig.found import Deployed, Found
from clusters.kubeconfig.look import look
from clusters.kubeconfig.look import remains as search
from clusters.kubeconfig.settings import KubeconfigSettings
from clusters.operator import operator_ready
from core import manifests
from core.kube import ADMISSION
from core.manifests import KEPT, MADE_BY
from core.paths import BACKEND_ID
from tests.unit.fake_api import Answer, FakeApi, judged, served
from tests.unit.not_none import not_none

GROUPS, KINDS = "/apis/", "/apis/kubeflow.org/v1"
DEPLOYMENTS = "/apis/apps/v1/deployments"
USUAL = "/apis/apps/v1/namespaces/kubeflow/deployments/training-operator"
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/pytorchjobs.kubeflow.org"
NAMESPACE, HOME = "/api/v1/namespaces/team-a", "/api/v1/namespaces/kubeflow"
ACCOUNT = f"{NAMESPACE}/serviceaccounts/slipway-job"
JOBS = "/apis/kubeflow.org/v1/namespaces/team-a/pytorchjobs"
FORBIDDEN = {"kind": "Status", "message": "forbidden"}


@pytest.fixture
def api() -> Iterator[FakeApi]:
    """A cluster in which an account may see everything, and there is no operator."""
    empty = FakeApi()
    empty.says("GET", GROUPS, groups())
    empty.says("GET", DEPLOYMENTS, {"items": []})
    empty.says("GET", NAMESPACE, {"metadata": {"name": "team-a"}})
    with served(empty):
        yield empty


def groups(*names: str) -> dict[str, Any]:
    return {"groups": [{"name": name} for name in ("apps", *names)]}


def deployed(namespace: str, name: str, uid: str) -> dict[str, Any]:
    container = {"name": "manager", "image": "training-operator:v1.9.3", "args": ["--x"]}
    return {
        "metadata": {"namespace": namespace, "name": name, "uid": uid},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }


def with_operator(api: FakeApi) -> None:
    api.says("GET", GROUPS, groups("kubeflow.org", "trainer.kubeflow.org"))
    api.says("GET", KINDS, {"resources": [{"name": "pytorchjobs"}]})
    usual = deployed("kubeflow", "training-operator", "1")
    api.says("GET", USUAL, usual)
    api.says("GET", DEPLOYMENTS, {"items": [usual, deployed("b", "other", "2")]})
    mark = {"annotations": {MADE_BY: "slipway/mine"}}
    api.says("GET", DEFINITION, {"metadata": mark})
    api.says("GET", HOME, {"metadata": {"name": "kubeflow", **mark}})
    api.says("GET", ACCOUNT, {"metadata": {"name": "slipway-job", **mark}})
    api.answers["POST", JOBS] = judged


def seen(kubeconfig: str) -> Found:
    return look(Choice("x", "https://a.example", "config", kubeconfig, "/a file"), "team-a")


def test_all_that_there_is_is_seen_each_thing_once(api: FakeApi) -> None:
    with_operator(api)
    image = "training-operator:v1.9.3"
    assert seen(api.kubeconfig) == Found(
        serves=True,
        trainer=True,
        made_by="slipway/mine",
        deployed=(
            Deployed("kubeflow", "training-operator", image, ("--x",)),
            Deployed("b", "other", image, ("--x",)),
        ),
        judged=True,
        namespaces={"team-a": None, "kubeflow": "slipway/mine"},
        jobs_of="slipway/mine",
    )
    changing = [path for method, path, _ in api.asked if method != "GET"]
    assert changing == [f"{JOBS}?dryRun=All"] * 2, "looking changes nothing"


def test_a_stack_of_the_same_name_in_another_persons_backend_is_another_one(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen from a backend without an ID, as by an older version, it counts as the stack's own."""
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{tmp_path}")
    monkeypatch.setattr(manifests, "stack", lambda: "slipway/mine")
    own = tmp_path / BACKEND_ID
    for made_in in (None, "a1", "b2"):
        if made_in is not None:
            own.write_text(made_in)
        api.says("GET", ACCOUNT, manifests.marked({"metadata": {}}))
        assert seen(api.kubeconfig).jobs_of == "slipway/mine"
    own.write_text("a1")
    told = f"in another backend (if it was moved here, write its ID b2 to file://{own})"
    assert seen(api.kubeconfig).jobs_of == f"slipway/mine {told}"


def test_where_not_all_may_be_seen_its_usual_place_shows_the_operators_owner(api: FakeApi) -> None:
    with_operator(api)
    usual = deployed("kubeflow", "training-operator", "1")
    usual["metadata"]["annotations"] = {MADE_BY: "slipway/dev"}
    api.says("GET", USUAL, usual)
    for path in (DEPLOYMENTS, DEFINITION):
        api.says("GET", path, FORBIDDEN, status=403)
    found = seen(api.kubeconfig)
    assert found.made_by is None
    (operator,) = not_none(found.deployed)
    assert (operator.name, operator.made_by) == ("training-operator", "slipway/dev")
    for path in (USUAL, NAMESPACE, HOME):
        api.says("GET", path, FORBIDDEN, status=403)
    found = seen(api.kubeconfig)
    assert found.deployed is None
    assert found.unseen == {"team-a", "kubeflow"}


def test_whether_a_webhook_judges_is_seen_where_it_can_be_tried(api: FakeApi) -> None:
    with_operator(api)
    api.answers["POST", JOBS] = lambda job: (201, job)
    assert seen(api.kubeconfig).judged is False
    api.says("POST", JOBS, {"kind": "Status", "message": "no such namespace"}, status=404)
    assert seen(api.kubeconfig).judged is None


def test_rejected_credentials_ask_for_a_new_login(api: FakeApi) -> None:
    api.says("GET", GROUPS, {"kind": "Status", "message": "Unauthorized"}, status=401)
    text = r"https://a\.example rejects all requests from this account.*log in again"
    with pytest.raises(Unusable, match=text):
        seen(api.kubeconfig)


def test_a_busy_api_server_is_asked_again(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clusters.kubeconfig.look._found.retry.wait", tenacity.wait_none())
    monkeypatch.setattr(
        "clusters.kubeconfig.look._found.retry.stop", tenacity.stop_after_attempt(2)
    )
    api.says("GET", DEFINITION, {"kind": "Status", "message": "too many"}, status=429)
    with pytest.raises(Unusable, match=r"https://a\.example rejects a request: too many"):
        seen(api.kubeconfig)
    assert [path for _, path, _ in api.asked].count(DEFINITION) == 2


def test_a_webhook_that_is_slow_is_no_cluster_that_is_silent(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has 10 s by default, as has each other one."""
    assert ADMISSION[1] > 20

    def late(job: Any) -> Answer:
        time.sleep(0.3)
        return judged(job)

    monkeypatch.setattr(operator_ready, "ADMISSION", (5, 0.1))
    with_operator(api)
    api.answers["POST", JOBS] = late
    assert seen(api.kubeconfig).judged is None


def test_an_unreachable_cluster_says_so(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    once = tenacity.stop_after_attempt(1)
    monkeypatch.setattr("clusters.kubeconfig.look._found.retry.stop", once)
    gone = api.kubeconfig.replace("127.0.0.1:", "127.0.0.1:1#")
    command = r"`kubectl --kubeconfig '/a file' --context x get --raw /version`"
    with pytest.raises(Unusable, match=rf"https://a\.example is not responding: .*{command}"):
        seen(gone)


@pytest.mark.parametrize(("in_terminal", "output"), [(False, ": .*run az login"), (True, "$")])
def test_a_failing_login_command_is_reported_with_its_output(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch, output: str, *, in_terminal: bool
) -> None:
    """In a terminal, the output is there already."""
    monkeypatch.setattr(sys, "stdin", None)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: in_terminal)
    failing = ["-c", "echo run az login first >&2; exit 3"]
    version = "client.authentication.k8s.io/v1"
    program = {"apiVersion": version, "command": "sh", "args": failing, "interactiveMode": "Never"}
    document = yaml.safe_load(api.kubeconfig)
    document["users"][0]["user"] = {"exec": program}
    with pytest.raises(Unusable, match=rf"`sh`, which failed; log in again{output}"):
        seen(yaml.safe_dump(document))
    assert api.asked == [], "nobody was asked as nobody"


def test_a_kept_claim_is_mentioned_but_is_no_leftover(api: FakeApi, tmp_path: Path) -> None:
    claims = [
        {"metadata": {"name": "mine-results", "annotations": {KEPT: "true"}}},
        {"metadata": {"name": "mine-scratch", "annotations": {KEPT: "false"}}},
    ]
    api.says("GET", f"{NAMESPACE}/persistentvolumeclaims", {"items": claims})
    kind, found = remains(api, tmp_path)
    assert "kept with their files" in kind
    assert "(to remove these: `kubectl" in kind
    assert "delete persistentvolumeclaim mine-results`)" in kind
    assert [line.partition(":")[0] for line in found] == ["persistentvolumeclaim mine-scratch"]


KUBECTL = "kubectl --kubeconfig {}/config --context x --namespace team-a"


def remains(api: FakeApi, tmp_path: Path, context: str | None = None) -> tuple[str, Sequence[str]]:
    """Return what kind of things are left, and what."""
    file = tmp_path / "config"
    file.write_text(api.kubeconfig)
    images = Images(trainer="example.org/trainer:1")
    settings = KubeconfigSettings(
        path=str(file), context=context, namespace="team-a", images=images
    )
    ((kind, found),) = search(settings, "slipway/mine").items()
    return kind, found


@pytest.mark.parametrize(
    ("place", "owner", "left"),
    [
        (NAMESPACE, "slipway/mine", ["pytorchjob mine"]),
        (NAMESPACE, "slipway/dev", []),
        (ACCOUNT, "slipway/dev", []),
    ],
)
def test_only_what_is_in_a_namespace_of_its_own_is_left(
    api: FakeApi, tmp_path: Path, place: str, owner: str, left: list[str]
) -> None:
    api.says("GET", JOBS, {"items": [{"metadata": {"name": "mine"}}]})
    api.says("GET", place, {"metadata": {"annotations": {MADE_BY: owner}}})
    api.says("GET", f"{NAMESPACE}/pods", FORBIDDEN, status=403)
    kind, found = remains(api, tmp_path)
    command = KUBECTL.format(tmp_path)
    assert found == [f"{each}: {command} delete {each}" for each in left]
    queries = [path.partition("?")[2] for _, path, _ in api.asked if "?" in path]
    assert all("app.kubernetes.io/managed-by=slipway" in unquote(each) for each in queries)
    theirs = " that belong to it (team-a belongs to the stack slipway/dev)"
    assert kind == f"objects with Slipway's labels{'' if left else theirs}"


def test_an_unauthorized_check_never_reports_it_empty(api: FakeApi, tmp_path: Path) -> None:
    api.says("GET", JOBS, {"kind": "Status", "message": "Unauthorized"}, status=401)
    _, (told,) = remains(api, tmp_path)
    assert "can't be checked (Unauthorized; log in again" in told
    assert f"{KUBECTL.format(tmp_path)} get pytorchjobs,pods" in told


def test_of_a_cluster_or_context_that_has_gone_nothing_is_left(
    api: FakeApi, tmp_path: Path
) -> None:
    api.kubeconfig = api.kubeconfig.replace("127.0.0.1:", "127.0.0.1:1#")
    kind, found = remains(api, tmp_path)
    assert kind.startswith("objects known to be in a cluster that could not be checked (http://12")
    assert f"if it responds again, run `{KUBECTL.format(tmp_path)} get" in kind
    gone, nothing = remains(api, tmp_path, context="gone")
    assert 'slipway:cluster.context: "gone" is not in' in gone
    assert found == nothing == []
