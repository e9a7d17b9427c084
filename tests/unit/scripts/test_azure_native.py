"""The stub of azure-native's plugin: what a preview shows, and what it refuses."""

import asyncio
from collections.abc import Coroutine
from typing import Any
from unittest.mock import Mock

import pytest
from pulumi.provider.experimental import provider as protocol
from pulumi.provider.experimental.property_value import PropertyValue
from pulumi.provider.experimental.provider import PropertyDiffKind
from pulumi.runtime import proto, rpc

from core.handler import UNKNOWN
from infra.provider.engine import plain_map, wrap_map
from scripts.azure_native import NeedsPlugin, PreviewStub, Servicer

CLUSTER = "azure-native:containerservice:ManagedCluster"
POOL = "azure-native:containerservice:AgentPool"
GENERIC = "azure-native:resources:Resource"


@pytest.fixture
def messages() -> list[str]:
    """The messages that the engine gets."""
    return []


@pytest.fixture
def stub(messages: list[str], monkeypatch: pytest.MonkeyPatch) -> PreviewStub:
    monkeypatch.setattr("scripts.azure_native.sdk_version", lambda: "3.29.0")
    return PreviewStub(Mock(Log=lambda request: messages.append(request.message)))


def urn(token: str) -> str:
    return f"urn:pulumi:azure::slipway::slipway:clusters:Aks${token}::own"


def answer(request: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(request)


def check(stub: PreviewStub, token: str, **inputs: Any) -> dict[str, Any]:
    request = protocol.CheckRequest(urn(token), {}, wrap_map(inputs), b"")
    return plain_map(answer(stub.check(request)).inputs)


def diff(stub: PreviewStub, token: str, old: dict[str, Any], new: dict[str, Any]) -> Any:
    request = protocol.DiffRequest(urn(token), "id", wrap_map(old), wrap_map(new), ["ignored"])
    return answer(stub.diff(request))


def test_a_preview_shows_inputs_leaves_open_what_azure_completes_and_says_once_why(
    stub: PreviewStub, messages: list[str]
) -> None:
    check(stub, POOL)
    inputs = {"location": "westeurope", "dnsPrefix": UNKNOWN, "identity": {"type": "None"}}
    request = protocol.CreateRequest(urn(CLUSTER), wrap_map(inputs), 0, preview=True)
    # The engine takes an output that is missing for one that is not known yet.
    shown = plain_map(answer(stub.create(request)).properties)
    assert shown == {"location": "westeurope", "dnsPrefix": UNKNOWN}
    check(stub, CLUSTER)
    [message] = messages
    assert "Azure is not contacted" in message
    assert "\n" not in message


def test_a_generic_resource_gets_the_providers_location(stub: PreviewStub) -> None:
    arguments = wrap_map({"location": "eastus"})
    configured = protocol.ConfigureRequest(
        {}, arguments, accept_secrets=True, accept_resources=True
    )
    assert answer(stub.configure(configured)).supports_preview
    assert check(stub, GENERIC, resourceType="agentPools")["location"] == "eastus"
    assert check(stub, GENERIC, location="westus")["location"] == "westus"
    # A pool is where its cluster is, and has no such property.
    assert "location" not in check(stub, POOL, agentPoolName="gpu")


@pytest.mark.parametrize(
    ("token", "key", "replaced"),
    [
        (POOL, "vmSize", True),
        (POOL, "maxCount", False),
        (CLUSTER, "location", True),
        (CLUSTER, "networkProfile.podCidr", True),
        (CLUSTER, "networkProfile.loadBalancerSku", False),
    ],
)
def test_a_diff_shows_replacements(stub: PreviewStub, token: str, key: str, replaced: bool) -> None:
    def at(value: str) -> dict[str, Any]:
        head, _, inner = key.partition(".")
        return {head: {inner: value} if inner else value, "tags": {}, "ignored": value}

    found = diff(stub, token, at("before"), at("after"))
    kind = PropertyDiffKind.UPDATE_REPLACE if replaced else PropertyDiffKind.UPDATE
    assert {path: each.kind for path, each in found.detailed_diff.items()} == {key: kind}
    assert (found.changes, bool(found.replaces)) == (True, replaced)
    assert found.delete_before_replace  # Azure has each name once.


def test_an_input_that_is_left_out_is_a_change_and_null_is_none(stub: PreviewStub) -> None:
    found = diff(stub, POOL, {"maxCount": 2}, {})
    assert found.detailed_diff["maxCount"].kind is PropertyDiffKind.DELETE
    assert not diff(stub, POOL, {"profile": {"a": 1, "b": None}}, {"profile": {"a": 1}}).changes


def test_an_updates_preview_leaves_open_what_may_change(stub: PreviewStub) -> None:
    def struct(**values: Any) -> Any:
        return PropertyValue.marshal_map(wrap_map(values))

    old = {"maxCount": 2, "profile": {"a": "1"}, "tags": {"b": "1"}}
    request = proto.UpdateRequest(
        id="id",
        urn=urn(POOL),
        olds=struct(**old, state="Running"),
        old_inputs=struct(**old),
        news=struct(**old | {"maxCount": 3, "tags": {"b": "2"}}),
        preview=True,
    )
    response = answer(Servicer([], "", stub, "").Update(request, None))
    shown = rpc.deserialize_properties(response.properties)
    assert shown == {"maxCount": 3, "profile": {"a": "1"}, "state": "Running"}


def test_whatever_needs_azure_is_refused_by_its_name_with_what_to_do(stub: PreviewStub) -> None:
    at = (urn(POOL), "id")
    requests = {
        "creating": stub.create(protocol.CreateRequest(urn(POOL), {}, 0, preview=False)),
        "updating": stub.update(protocol.UpdateRequest(*at, {}, {}, 0, [], preview=False)),
        "reading": stub.read(protocol.ReadRequest(*at, {}, {})),
        "deleting": stub.delete(protocol.DeleteRequest(*at, {}, 0)),
    }
    for action, request in requests.items():
        expected = f"{action} {POOL} own requires .* downloads plugin 3.29.0 if"
        with pytest.raises(NeedsPlugin, match=expected):
            answer(request)
    with pytest.raises(NeedsPlugin, match="the function azure-native:sql:getServer requires"):
        answer(stub.invoke(protocol.InvokeRequest("azure-native:sql:getServer", {})))
    # The program would go on without the outputs of what was not created, and break on that.
    with pytest.raises(NeedsPlugin, match=f"creating {CLUSTER}"):
        check(stub, CLUSTER)
