"""Connections to the API server, and how its refusals and its absence are told apart."""

from collections.abc import Iterator
from typing import Any

import pytest

from core.kube import Request
from scripts.offline.kubernetes_standin.client import Client, Refusal, Unreachable
from scripts.offline.kubernetes_standin.kinds import KINDS, Reference
from tests.unit.fake_api import FakeApi, served

CONFIG_MAP = KINDS["ConfigMap"]
NAMESPACE = KINDS["Namespace"]
CONFLICT = {"reason": "FieldManagerConflict", "message": 'conflict with "me"', "field": ".data.a"}


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with served(FakeApi()) as made:
        yield made


@pytest.mark.parametrize("content", ["secret: [\n", "just text", "a: 1\n", ""])
def test_a_kubeconfig_that_cannot_be_used_is_a_cluster_that_cannot_be_reached(
    content: str,
) -> None:
    with pytest.raises(Unreachable, match="the kubeconfig ") as raised:
        Client(content)
    assert "secret" not in str(raised.value)


def test_a_server_that_is_not_the_api_server_is_a_cluster_that_cannot_be_reached(
    api: FakeApi,
) -> None:
    client = Client(api.kubeconfig.replace("http://", "https://"))
    with pytest.raises(Unreachable, match="is not the cluster's API server"):
        client.ask(Request("GET", "/api/v1/namespaces"))


def test_an_object_that_does_not_exist_is_none_and_needs_no_deletion(api: FakeApi) -> None:
    reference = Reference(CONFIG_MAP, "n", "x")
    client = Client(api.kubeconfig)
    assert client.get(reference) is None
    client.delete(reference)
    method, path, _ = api.asked[-1]
    place = "/api/v1/namespaces/n/configmaps/x"
    assert (method, path) == ("DELETE", f"{place}?propagationPolicy=Foreground")


def test_a_refusal_has_the_servers_text_and_the_fields_that_it_named(api: FakeApi) -> None:
    def refuse(_body: Any) -> tuple[int, Any]:
        return 409, {"message": "Apply failed", "details": {"causes": [CONFLICT]}}

    reference = Reference(NAMESPACE, None, "x")
    api.answers["PATCH", "/api/v1/namespaces/x"] = refuse
    with pytest.raises(Refusal, match=r"^Apply failed$") as raised:
        Client(api.kubeconfig).apply(reference, {}, "mine", force=False, dry_run=True)
    assert raised.value.conflicts == {".data.a": "me"}
    assert "fieldManager=mine" in api.asked[-1][1]
    assert "dryRun=All" in api.asked[-1][1]

    api.says("GET", "/version", "gateway timeout", status=504)
    with pytest.raises(Refusal, match=r"^504 Gateway Timeout$"):
        Client(api.kubeconfig).ask(Request("GET", "/version"))
