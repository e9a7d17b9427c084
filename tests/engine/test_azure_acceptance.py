"""`scripts/azure-acceptance` on the tests' double of Azure, with a real cluster behind it."""

import base64
import json
from pathlib import Path

import pytest
import yaml

from scripts.azure_acceptance import AGAIN
from scripts.scratch import Scratch
from tests.doubles import recorded_az
from tests.doubles.azure_native.store import VARIABLE, Store
from tests.engine.azure_stack import images, make_store, own, write_programs
from tests.engine.embedded_cluster import TestCluster, bring_in_trainer
from tests.engine.stack import UP_SECONDS

pytestmark = pytest.mark.long
CANARY = "canary-8c41f09d"
_PLUGIN = "pulumi-resource-azure-native"
_HOURLY = 0.23  # of the one node, in infra/cost/azure-prices.yaml


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory on PATH with what the double has besides the plugin."""
    made = write_programs(tmp_path / "bin")
    recorded_az.install(made, {**recorded_az.answers(), "group list": []})
    monkeypatch.setenv("PATH", str(made), prepend=":")
    return made


def put_in(scratch: Scratch, programs: Path, store: Store, trainer: str) -> None:
    """Put the double in place of Azure, and the user's own settings into their checkout."""
    for name in ("kubelogin", _PLUGIN):
        program = programs / name
        # A copy of a checkout takes over no variable of ours.
        export = f"export {VARIABLE}='{store.directory}'"
        program.write_text(program.read_text().replace("exec ", f"{export}\nexec ", 1))
    # In place of its starter: what is on PATH itself set-up would note for all checkouts.
    stub = scratch.checkout / "scripts/plugins" / _PLUGIN
    (programs / _PLUGIN).replace(stub)
    settings = own("azure", images=images(trainer))
    config = {"slipway:cluster": settings, "slipway:outputs": {"keep": False}}
    (scratch.checkout / "Pulumi.azure.yaml").write_text(yaml.safe_dump({"config": config}))


def test_it_reports_what_azure_answered_without_secrets_and_leaves_nothing(
    scratch: Scratch, programs: Path, cluster: TestCluster, tmp_path: Path
) -> None:
    azure = make_store(tmp_path / "azure", cluster)
    kubeconfig = yaml.safe_load(azure.kubeconfig.read_text())
    azure.kubeconfig.write_text(yaml.safe_dump({**kubeconfig, "preferences": {"own": CANARY}}))
    put_in(scratch, programs, azure, bring_in_trainer(cluster))
    finished = scratch.run("scripts/azure-acceptance --report report.json", UP_SECONDS)
    assert finished.code == 0, finished
    text = (scratch.checkout / "report.json").read_text()
    found = json.loads(text)
    names = ["up", "refresh", AGAIN, "smoke", "down"]
    assert {each["name"]: each["outcome"] for each in found["steps"]} == dict.fromkeys(names, "ok")
    assert found["jobs"]["mnist-gloo"]["state"] == "Succeeded"
    assert found["cost"]["hourly"] == f"{_HOURLY:.3f}"

    asked = {(each["step"], each["method"], each["type"].rpartition(":")[2]): each
             for each in found["requests"]}  # fmt: skip
    created = asked["up", "Create", "ManagedCluster"]
    assert created["name"] == "azure-acceptance"
    [pool] = created["request"]["properties"]["agentPoolProfiles"]
    assert pool["name"] == "system"
    assert created["answer"]["properties"]["oidcIssuerProfile"]["issuerURL"]
    assert {("refresh", "Read", "Registry"), ("down", "Delete", "Registry")} <= asked.keys()
    credentials = asked["up", "Invoke", "listManagedClusterUserCredentials"]
    assert "kubeconfigs" in credentials["answer"]["return"]
    assert CANARY not in text
    assert "certificate-authority-data" not in text
    assert base64.b64encode(b"apiVersion").decode()[:12] not in text

    assert list(azure.all()) == []
    namespaces = {each["metadata"]["name"] for each in cluster.get("namespaces")["items"]}
    assert namespaces == {"default", "kube-node-lease", "kube-public", "kube-system"}
