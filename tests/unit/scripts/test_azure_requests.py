"""What is kept of the engine's record of its calls, and that no secret is."""

import base64
import json
from typing import Any

import pytest

from scripts.azure_requests import HIDDEN, requests

CANARY = "canary-2f6b1c"
URN = "urn:pulumi:a::slipway::slipway:clusters:Aks${}::mine"
REGISTRY = "azure-native:containerregistry:Registry"
KUBECONFIG = f"apiVersion: v1\nusers: [{{name: me, user: {{token: {CANARY}}}}}]\n"
MARKED = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "value": CANARY}


def call(method: str, request: dict[str, Any], response: Any = None, **more: Any) -> str:
    """Return a line of the engine's about a call that has ended."""
    return json.dumps(
        {
            "method": f"/pulumirpc.ResourceProvider/{method}",
            "request": request,
            "response": response,
            "progress": "response_completed",
            "duration": 2_340_000_000,
            **more,
        }
    )


def create(outputs: dict[str, Any], kind: str = REGISTRY, **more: Any) -> str:
    request = {"urn": URN.format(kind), "properties": {"location": "westeurope"}}
    return call("Create", request, {"id": "/x", "properties": outputs}, **more)


def only(*lines: str) -> dict[str, Any]:
    [found] = requests(lines, "up")
    return found


def test_a_call_is_kept_with_its_request_its_answer_and_its_seconds() -> None:
    request = {"urn": URN.format(REGISTRY), "properties": {"location": "westeurope"}}
    answer = {"id": "/x", "properties": {"loginServer": "mine.azurecr.io"}}
    assert only(call("Create", request, answer)) == {
        "step": "up",
        "method": "Create",
        "type": REGISTRY,
        "name": "mine",
        "seconds": 2.34,
        "request": request,
        "answer": answer,
        "errors": None,
    }


@pytest.mark.parametrize("method", ["Read", "Update", "Delete"])
def test_every_kind_of_call_is_kept(method: str) -> None:
    found = only(call(method, {"urn": URN.format(REGISTRY), "id": "/x"}, {"inputs": {"a": 1}}))
    assert (found["method"], found["answer"]) == (method, {"inputs": {"a": 1}})


def test_a_refusal_is_kept_in_azures_words() -> None:
    refused = 'rpc error: code = Unknown desc = Status=409 Code="RegistryNameInUse"'
    found = only(call("Create", {"urn": URN.format(REGISTRY)}, errors=[refused]))
    assert (found["answer"], found["errors"]) == (None, [refused])


def test_what_is_not_azures_has_not_ended_or_changes_nothing_is_left_out() -> None:
    begun = json.dumps({**json.loads(create({})), "progress": "request_started"})
    preview = {"urn": URN.format(REGISTRY), "preview": True}
    lines = [
        begun,
        create({}, kind="kubernetes:core/v1:Secret"),
        call("Configure", {"args": {}}),
        call("Create", preview, {}),
        call("Invoke", {"tok": "kubernetes:yaml:decode"}),
        create({})[:40],
        "",
    ]
    assert list(requests(lines, "up")) == []


@pytest.mark.parametrize(
    "outputs",
    [
        {"adminValue": MARKED},
        {"deep": [{"value": {"inside": MARKED}}]},
        {"password": CANARY},
        {"primarySharedKey": CANARY},
        {"accessToken": CANARY},
        {"kubeconfigs": [{"name": "clusterUser", "value": CANARY}]},
        {"text": KUBECONFIG},
        {"text": base64.b64encode(KUBECONFIG.encode()).decode()},
        {"text": f"Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0.{CANARY}"},
        {"text": f"-----BEGIN RSA PRIVATE KEY-----\n{CANARY}\n-----END RSA PRIVATE KEY-----"},
    ],
)
def test_a_secret_is_hidden_wherever_it_is(outputs: dict[str, Any]) -> None:
    found = json.dumps(only(create({**outputs, "plain": "here"}))["answer"])
    assert CANARY not in found
    assert base64.b64encode(CANARY.encode()).decode()[:-4] not in found
    assert HIDDEN in found
    assert '"plain": "here"' in found


def test_a_secret_is_hidden_where_another_call_repeats_it() -> None:
    first = create({"adminValue": MARKED})
    second = create({"text": f"see {CANARY}"}, errors=[f"login {CANARY} refused"])
    of_ours = call("Create", {"urn": URN.format("slipway:x:Y"), "properties": {"a": MARKED}}, {})
    for lines in ((first, second), (second, first), (of_ours, second)):
        found = [*requests(lines, "up")]
        assert CANARY not in str(found)
        assert any(each["errors"] == [f"login {HIDDEN} refused"] for each in found)


def test_whether_there_is_to_be_a_key_is_no_secret() -> None:
    outputs = {"allowSharedKeyAccess": False, "secretCount": 3, "nodeTaints": ["sku=gpu"]}
    assert only(create(outputs))["answer"]["properties"] == outputs
