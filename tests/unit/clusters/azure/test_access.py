"""Nothing is made in a cluster before it answers and lets the person in; waiting has an end."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from kubernetes.config import ConfigException

from clusters.azure import access
from clusters.azure.access import AccessHandler
from core import kube
from tests.unit.fake_api import Answer, FakeApi, served
from tests.unit.row import Row

REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with served(FakeApi()) as api:
        yield api


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "LIMIT_SECONDS", 2)
    monkeypatch.setattr(access, "_POLL_SECONDS", 0.01)


def inputs(kubeconfig: str) -> dict[str, Any]:
    return {"name": "azure", "kubeconfig": kubeconfig, "advice": "log in"}


def answer(review: Any, *, allowed: bool) -> Answer:
    return 201, {**review, "status": {"allowed": allowed}}


def test_a_right_that_has_not_arrived_yet_is_waited_for(api: FakeApi) -> None:
    answers = iter([False, False, True])
    api.answers["POST", REVIEW] = lambda review: answer(review, allowed=next(answers))
    row = Row()
    assert AccessHandler().create(inputs(api.kubeconfig), row) == ("azure", {})
    missing = "this account is not allowed to create namespaces in the cluster yet"
    assert row.said == [f"waiting for the cluster azure: {missing}"]
    asked = api.asked[-1][2]["spec"]["resourceAttributes"]
    assert asked == {"verb": "create", "resource": "namespaces"}


def test_the_end_of_the_wait_says_what_was_seen_and_what_to_do(api: FakeApi) -> None:
    api.says("POST", REVIEW, {"kind": "Status", "message": "who are you?"}, status=401)
    waited = "timed out after 2 s of waiting for the cluster azure: the API server"
    unreachable = api.kubeconfig.replace("127.0.0.1:", "127.0.0.1:1#")
    for kubeconfig, seen in (
        (api.kubeconfig, r"responded: who are you\?; log in again, .*"),
        (unreachable, "can't be reached: .*"),
    ):
        with pytest.raises(TimeoutError, match=f"^{waited} {seen}\nwhat to do: log in$"):
            AccessHandler().create(inputs(kubeconfig), Row())


def test_a_login_program_that_is_missing_or_hangs_ends_the_wait(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kube, "_LOGIN_SECONDS", 0.2)
    document = yaml.safe_load(api.kubeconfig)
    # What the second one starts holds its output open.
    for command, told in (
        (["no-such-kubelogin"], "no-such-kubelogin"),
        (["sh", "-c", "sleep 60; true"], r"`sh`, which did not finish within 0\.2 s"),
    ):
        program = {"command": command[0], "args": command[1:], "interactiveMode": "Never"}
        version = "client.authentication.k8s.io/v1"
        document["users"][0]["user"] = {"exec": {"apiVersion": version, **program}}
        began = time.monotonic()
        with pytest.raises(ConfigException, match=told):
            AccessHandler().create(inputs(yaml.safe_dump(document)), Row())
        assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("fixed", "the cluster will be replaced: {}. "),
        ("left", "these changes are not applied to the existing cluster: {}. Do so"),
    ],
)
def test_the_row_explains_what_a_change_does_to_the_cluster(kind: str, told: str) -> None:
    state = {**inputs("kept"), "fixed": {}, "left": {}, "byHand": "Do so"}
    state[kind] = {"location": "westeurope", "pods": "10.244.0.0/16"}
    row = Row()
    AccessHandler().diff(state, {**state, "kubeconfig": "another"}, row)
    AccessHandler().diff(inputs("of an earlier version"), state, row)
    assert row.said == []
    changed = {**state, kind: {**state[kind], "pods": "10.9.0.0/16"}}
    assert AccessHandler().diff(state, changed, row) != []
    (said,) = row.said
    assert said.startswith(told.format("pods 10.244.0.0/16 → 10.9.0.0/16"))


def test_a_change_that_would_lose_files_is_refused_and_settings_wait_for_nothing() -> None:
    before, after = ({"refused": {"subscription": each}} for each in ("a", "b"))
    assert AccessHandler().create(before, Row()) == ("settings", {})
    with pytest.raises(ValueError, match=r"can't change subscription a → b\. Set the former"):
        AccessHandler().diff(before, after, Row())
