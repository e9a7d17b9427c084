"""The kubeconfig that Azure lists is changed so that kubelogin logs in without a browser."""

from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from clusters.azure.resources import logging_in
from tests.doubles import recorded_kubelogin

LISTED = ["--environment", "AzurePublicCloud", "--server-id", recorded_kubelogin.SERVERS[0],
          "--client-id", "a-client", "--tenant-id", "a-tenant",
          "--login", "devicecode"]  # fmt: skip


@pytest.fixture(autouse=True)
def kubelogin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded_kubelogin.install(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")


def handed_out(*more: str, **user: Any) -> str:
    args = ["get-token", *more, *LISTED]
    plugin = {"apiVersion": "v1beta1", "command": "kubelogin", "args": args}
    return yaml.safe_dump(
        {
            "clusters": [{"name": "c", "cluster": {"server": "https://c.example.org"}}],
            "users": [{"name": "u", "user": {"exec": plugin, **user}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
        }
    )


def login(text: str) -> list[str]:
    (user,) = yaml.safe_load(text)["users"]
    assert user["user"].keys() == {"exec"}
    found: list[str] = user["user"]["exec"]["args"]
    return found


def test_proof_of_possession_is_kept_for_the_login_that_can_give_it() -> None:
    flags = ("--pop-enabled", "--pop-claims", "u=the-cluster")
    spn = login(logging_in(handed_out(*flags), "spn", "b-tenant"))
    assert spn[-3:] == [*flags]
    assert spn[spn.index("--tenant-id") + 1] == "b-tenant"
    # kubelogin ignores it for all others: https://azure.github.io/kubelogin/concepts/azure-arc.html
    assert "--pop-enabled" not in login(logging_in(handed_out(*flags), "azurecli"))


def test_an_administrators_certificate_is_never_passed_on() -> None:
    with pytest.raises(pulumi.RunError, match="client-key-data") as refusal:
        logging_in(handed_out(**{"client-key-data": "Zm9v"}), "azurecli")
    assert "Zm9v" not in str(refusal.value)
    assert "adminKubeconfig" in str(refusal.value)


def test_missing_kubelogin_names_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(pulumi.RunError, match="--server-id is required"):
        logging_in(handed_out().replace("--server-id", "--username"), "azurecli")
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    with pytest.raises(pulumi.RunError, match="az aks install-cli"):
        logging_in(handed_out(), "azurecli")
