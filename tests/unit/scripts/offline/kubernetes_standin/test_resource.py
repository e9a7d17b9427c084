"""Server-side apply: who manages a field, and what is left to others."""

import asyncio
from collections.abc import Iterator
from typing import Any, cast

import pytest
from pulumi.provider.experimental.provider import ConfigureRequest
from pulumi.runtime.proto import engine_pb2_grpc

from core.handler import UNKNOWN
from infra.provider.engine import wrap_map
from scripts.offline.kubernetes_standin.client import Refusal
from scripts.offline.kubernetes_standin.manifest import (
    field_manager,
    is_managed_by,
    with_owner,
    yields,
)
from scripts.offline.kubernetes_standin.resource import Resource
from scripts.offline.kubernetes_standin.server import StandIn
from tests.unit.fake_api import FakeApi, served

_URN = "urn:pulumi:dev::project::kubernetes:core/v1:ConfigMap::name"


def test_a_field_manager_is_the_same_in_every_run_and_another_for_another_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PULUMI_BACKEND_URL", "file:///mine")
    mine = field_manager(_URN)
    assert mine == field_manager(_URN)
    assert mine != field_manager(_URN + "2")
    monkeypatch.setenv("PULUMI_BACKEND_URL", "file:///yours")
    assert field_manager(_URN) != mine


def test_a_bare_object_is_marked_and_another_is_left_as_it_is() -> None:
    bare = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}
    assert with_owner(bare, "me")["metadata"]["annotations"] == {
        "pulumi.com/patchFieldManager": "me"
    }
    labelled = {**bare, "metadata": {"name": "n", "labels": {"a": "b"}}}
    assert with_owner(labelled, "me") == labelled


def test_only_what_was_applied_is_managed_and_only_changes_by_hand_yield() -> None:
    def managed(operation: str) -> dict[str, Any]:
        return {"metadata": {"managedFields": [{"manager": "me", "operation": operation}]}}

    assert is_managed_by(managed("Apply"), "me")
    assert not is_managed_by(managed("Update"), "me")
    assert not is_managed_by(managed("Apply"), "you")
    assert yields("kubectl-edit")
    assert not yields("autoscaler")


_PATH = "/api/v1/namespaces/n/configmaps/x"
_THEIRS = {"metadata": {"managedFields": [{"manager": "theirs", "operation": "Apply"}]}}


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with served(FakeApi()) as made:
        made.says("GET", "/version", {})
        made.says("PATCH", _PATH, {})
        yield made


def provider(api: FakeApi) -> StandIn:
    made = StandIn(cast(engine_pb2_grpc.EngineStub, None))
    given = wrap_map({"kubeconfig": api.kubeconfig})
    request = ConfigureRequest({}, given, accept_secrets=True, accept_resources=True)
    asyncio.run(made.configure(request))
    return made


def config_map(provider: StandIn, **fields: Any) -> Resource:
    metadata = {"name": "x", "namespace": "n"}
    inputs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **fields}
    return Resource(provider, _URN, wrap_map(inputs))


def test_a_preview_fails_for_an_object_of_someone_else(api: FakeApi) -> None:
    api.says("GET", _PATH, _THEIRS)
    with pytest.raises(RuntimeError, match="its fields are managed by theirs"):
        config_map(provider(api)).preview()


def test_a_preview_of_a_replacement_does_not_mind_the_object_that_is_replaced(
    api: FakeApi,
) -> None:
    api.says("GET", _PATH, _THEIRS)
    replacing = provider(api)
    replacing.in_state.add((_URN, "n/x"))
    config_map(replacing, data={"a": "b"}).preview()
    method, path, _ = api.asked[-1]
    assert method == "PATCH"
    assert "force=true" in path
    assert "dryRun=All" in path


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (403, 'configmaps is forbidden: User "u" cannot patch resource "configmaps"'),
        (404, 'namespaces "n" not found'),
        (400, "admission webhook does not support dry run"),
        (422, "data: Forbidden: field is immutable when `immutable` is set"),
    ],
)
def test_a_preview_passes_when_a_dry_run_shows_nothing(
    api: FakeApi, status: int, message: str
) -> None:
    api.says("PATCH", _PATH, {"message": message}, status=status)
    config_map(provider(api)).preview()


def test_a_preview_fails_for_what_the_api_server_refuses(api: FakeApi) -> None:
    api.says("PATCH", _PATH, {"message": "exceeded quota"}, status=403)
    with pytest.raises(Refusal, match="exceeded quota"):
        config_map(provider(api)).preview()
    cause = {"reason": "FieldManagerConflict", "message": 'conflict with "hpa"', "field": ".a"}
    conflict = {"message": "conflict", "details": {"causes": [cause]}}
    api.says("PATCH", _PATH, conflict, status=409)
    with pytest.raises(RuntimeError, match=r"ConfigMap n/x: \.a is managed by 'hpa'\. Change"):
        config_map(provider(api)).preview()


def test_what_is_not_known_yet_is_not_checked(api: FakeApi) -> None:
    config_map(provider(api), data={"a": UNKNOWN}).preview()
    assert api.asked == []
