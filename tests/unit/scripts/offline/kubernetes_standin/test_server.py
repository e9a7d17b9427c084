"""The provider's configuration."""

import asyncio
from typing import Any, cast

import pytest
from pulumi.provider.experimental.provider import ConfigureRequest
from pulumi.runtime.proto import engine_pb2_grpc, provider_pb2

from core.handler import UNKNOWN
from infra.provider.engine import wrap_map
from scripts.offline.kubernetes_standin.kinds import Unserved
from scripts.offline.kubernetes_standin.server import Servicer, StandIn, compare, problems


def configured(**given: Any) -> StandIn:
    provider = StandIn(cast(engine_pb2_grpc.EngineStub, None))
    request = ConfigureRequest({}, wrap_map(given), accept_secrets=True, accept_resources=True)
    asyncio.run(provider.configure(request))
    return provider


def test_every_setting_that_is_not_served_is_named_at_once() -> None:
    given = {
        "kubeconfig": UNKNOWN,
        "namespace": "n",
        "version": "4.34.2",
        "enableServerSideApply": "false",
        "renderYamlToDirectory": "/x",
        "helmReleaseSettings": "",
        "enablePatchForce": "true",
        "upsertExistingObjects": True,
    }
    assert sorted(problems(given)) == [
        "clusterIdentifier",
        "enablePatchForce",
        "enableServerSideApply",
        "namespace",
        "renderYamlToDirectory",
        "upsertExistingObjects",
    ]
    served = {"kubeconfig": "x", "clusterIdentifier": UNKNOWN, "enableServerSideApply": True}
    assert problems(served) == {}
    assert problems({"kubeconfig": None, "clusterIdentifier": None}) == {}, "the cluster failed"


def test_a_lost_cluster_is_dropped_by_the_program_and_else_by_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PULUMI_K8S_DELETE_UNREACHABLE", "true")
    assert configured().delete_unreachable
    assert not configured(deleteUnreachable="false").delete_unreachable
    monkeypatch.delenv("PULUMI_K8S_DELETE_UNREACHABLE")
    assert configured(deleteUnreachable=True).delete_unreachable
    assert not configured().delete_unreachable


@pytest.mark.parametrize(
    ("old", "new", "changed", "replaces"),
    [
        ({"clusterIdentifier": "a"}, {"clusterIdentifier": "b"}, 1, ["clusterIdentifier"]),
        ({"clusterIdentifier": "a"}, {"clusterIdentifier": UNKNOWN}, 1, ["clusterIdentifier"]),
        ({}, {"clusterIdentifier": "b"}, 1, []),
        (
            {"clusterIdentifier": "a", "kubeconfig": "x"},
            {"clusterIdentifier": "a", "kubeconfig": UNKNOWN},
            1,
            [],
        ),
        ({"clusterIdentifier": "a", "version": "1"}, {"clusterIdentifier": "a"}, 0, []),
    ],
)
def test_a_provider_is_replaced_only_for_another_cluster(
    old: dict[str, Any], new: dict[str, Any], changed: int, replaces: list[str]
) -> None:
    found, found_replaces = compare(old, new)
    assert len(found) == changed
    assert found_replaces == replaces


def test_ignoring_a_field_that_a_program_may_set_is_refused_by_name() -> None:
    servicer = Servicer([], "", configured(), engine_address="")
    request = provider_pb2.DiffRequest(ignoreChanges=["spec.replicas"])
    with pytest.raises(Unserved, match=r"ignore_changes for spec\.replicas; leave it out"):
        asyncio.run(servicer.Diff(request, None))
