"""`scripts/azure-acceptance`: its stack, what it may cost, and a report that has no secrets."""

import base64
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.settings import SettingsError
from scripts.azure_acceptance import DOWN_SECONDS, Cap, cap_of, run, stack_config
from scripts.azure_requests import HIDDEN, requests
from scripts.cli.terminal import CommandError
from scripts.scratch import Scratch

_MAKEFILE = """\
.PHONY: up smoke down
up smoke down:
\t@test $@ != up || cat recording >> "$$PULUMI_DEBUG_GRPC" || sleep 30
results:
\t@echo '{"jobs": {}}'
env:
\t@echo 'pulumi() { test "$$1" = refresh; }'
"""
CAP = Cap(5.0, 0.23, "USD")


@pytest.fixture
def config(root: Path) -> dict[str, Any]:
    """A user's own settings of the stack `azure`."""
    found: dict[str, Any] = yaml.safe_load((root / "stacks/azure.yaml").read_text())["config"]
    return found


def test_the_stack_is_one_node_with_the_users_account_and_prices_alone(
    config: dict[str, Any], root: Path, tmp_path: Path
) -> None:
    before = config["slipway:cluster"]
    before |= {"name": "mine", "resourceGroup": "mine", "production": True, "tier": "Standard"}
    before["system"] = {"size": "Standard_D8s_v5", "maxNodes": 3}
    prices = (root / "infra/cost/azure-prices.yaml").read_text()
    (tmp_path / "prices.yaml").write_text(prices.replace("currency: USD", "currency: EUR"))
    config["slipway:prices"] = str(tmp_path / "prices.yaml")
    found = stack_config(config)
    cluster = found["slipway:cluster"]
    own = ("subscription", "location", "api", "admins", "budget")
    assert {key: cluster[key] for key in own} == {key: before[key] for key in own}
    assert cluster["gpu"] is False
    assert cluster["system"] == {"minNodes": 1, "maxNodes": 1, "size": "Standard_D8s_v5"}
    assert not {"name", "resourceGroup", "production", "tier"} & cluster.keys()
    assert cap_of(found, 5) == Cap(5, 0.46, "EUR")


def test_what_would_start_nothing_is_refused(config: dict[str, Any]) -> None:
    for cap in (0.1, -1, math.nan, math.inf):
        with pytest.raises(CommandError, match="is not finite, or does not cover `down`"):
            cap_of(stack_config(config), cap)
    with pytest.raises(CommandError, match="not of kind aks"):
        stack_config({"slipway:cluster": {"kind": "embedded"}})
    config["slipway:cluster"]["location"] = "norwayeast"
    with pytest.raises(CommandError, match="no price for Standard_D4s_v5 in norwayeast"):
        cap_of(stack_config(config), 5)
    config["slipway:cluster"]["location"] = "West Europe"
    with pytest.raises(SettingsError, match="location"):
        cap_of(stack_config(config), 5)


@pytest.fixture
def scratch(copy_of: Callable[[dict[str, str]], Scratch]) -> Scratch:
    """A copy of a checkout with commands that record what a test has them record."""
    return copy_of({"Makefile": _MAKEFILE, "stacks/azure.yaml": ""})


def test_a_second_up_that_changes_fails(scratch: Scratch, config: dict[str, Any]) -> None:
    (scratch.checkout / "recording").write_text(create({"adminValue": MARKED}) + "\n")
    summary, text = run(scratch, stack_config(config), CAP)
    changed = "changed azure-native:containerregistry:Registry mine"
    assert summary.status == 1
    steps = {step.name: step.outcome for step in summary.steps}
    assert steps == {"up": "ok", "refresh": "ok", "up again": changed, "down": "ok"}
    report = json.loads(text)
    assert [each["step"] for each in report["requests"]] == ["up", "up again"]
    assert CANARY not in text


CANARY = "canary-2f6b1c"
URN = "urn:pulumi:a::slipway::slipway:clusters:Aks${}::mine"
REGISTRY = "azure-native:containerregistry:Registry"
KUBECONFIG = f"apiVersion: v1\nusers: [{{name: me, user: {{token: {CANARY}}}}}]\n"
MARKED = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "value": CANARY}


def call(method: str, request: dict[str, Any], response: Any = None, **more: Any) -> str:
    """Return a line of the engine's about a call that has ended."""
    ended = {"progress": "response_completed", "duration": 2_340_000_000}
    called = {"method": f"/pulumirpc.ResourceProvider/{method}", "request": request}
    return json.dumps({**called, "response": response, **ended, **more})


def create(outputs: dict[str, Any], kind: str = REGISTRY, **more: Any) -> str:
    request = {"urn": URN.format(kind), "properties": {"location": "westeurope"}}
    return call("Create", request, {"id": "/x", "properties": outputs}, **more)


def test_the_cap_ends_it_in_time_to_pay_for_going_down(
    scratch: Scratch, config: dict[str, Any]
) -> None:
    cap = Cap(int(DOWN_SECONDS) + 1, 3600, "USD")
    summary, text = run(scratch, stack_config(config), cap)
    steps = {step.name: step.outcome for step in summary.steps}
    assert (summary.status, steps) == (124, {"up": "timed out after 1 s", "down": "ok"})
    assert json.loads(text)["cost"]["max"] == str(cap.most)


def only(*lines: str) -> dict[str, Any]:
    [found] = requests(lines, "up")
    return found


@pytest.mark.parametrize("method", ["Create", "Read", "Update", "Delete"])
def test_a_call_is_kept_with_its_request_its_answer_or_refusal_and_its_seconds(method: str) -> None:
    request = {"urn": URN.format(REGISTRY), "properties": {"location": "westeurope"}}
    outputs = {"allowSharedKeyAccess": False, "secretCount": 3, "nodeTaints": ["sku=gpu"]}
    answer = {"id": "/x", "properties": outputs}  # whether there is to be a key is no secret
    kept = {"step": "up", "method": method, "type": REGISTRY, "name": "mine", "seconds": 2.34}
    assert only(call(method, request, answer)) == {
        **kept, "request": request, "answer": answer, "errors": None,
    }  # fmt: skip
    refused = 'rpc error: code = Unknown desc = Status=409 Code="RegistryNameInUse"'
    found = only(call(method, request, errors=[refused]))
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
