"""The kubeconfig that Azure lists is changed so that kubelogin logs in without a browser."""

from typing import Any

import pytest
import yaml

from clusters.azure import resources


def handed_out(**user: Any) -> str:
    args = ["get-token", "--environment", "AzurePublicCloud", "--server-id", "the-server"]
    args += ["--client-id", "a-client", "--tenant-id", "a-tenant", "--login", "devicecode"]
    plugin = {"apiVersion": "v1beta1", "command": "kubelogin", "args": args}
    return yaml.safe_dump(
        {
            "clusters": [{"name": "c", "cluster": {"server": "https://c.example.org"}}],
            "users": [{"name": "u", "user": {"exec": plugin, **user}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
        }
    )


def login(text: str) -> dict[str, Any]:
    (user,) = yaml.safe_load(text)["users"]
    assert user["user"].keys() == {"exec"}
    found: dict[str, Any] = user["user"]["exec"]
    return found


def test_kubelogin_uses_the_persons_own_login() -> None:
    made = resources.logging_in(handed_out(), "azurecli")
    assert login(made)["args"] == ["get-token", "--login", "azurecli", "--server-id", "the-server"]
    assert yaml.safe_load(made)["clusters"] == yaml.safe_load(handed_out())["clusters"]


def test_nobody_is_asked_for_a_code() -> None:
    made = login(resources.logging_in(handed_out(), "azurecli"))
    assert "devicecode" not in made["args"]
    assert made["interactiveMode"] == "Never"
    assert "az login" in made["installHint"]


def test_a_pipelines_service_principal_is_asked_for_in_its_tenant() -> None:
    args = login(resources.logging_in(handed_out(), "spn"))["args"]
    assert args[args.index("--tenant-id") + 1] == "a-tenant"
    other = login(resources.logging_in(handed_out(), "spn", "b-tenant"))["args"]
    assert other == ["b-tenant" if each == "a-tenant" else each for each in args]
    # It and its secret are in the pipeline's environment; AKS's own client is another.
    assert "--client-id" not in args


def test_a_tenant_that_was_asked_for_is_logged_in_to() -> None:
    for kind in ("azurecli", "workloadidentity"):
        args = login(resources.logging_in(handed_out(), kind, "b-tenant"))["args"]
        assert args[-2:] == ["--tenant-id", "b-tenant"]
    # A managed identity takes none: https://github.com/Azure/kubelogin/issues/123
    assert "--tenant-id" not in login(resources.logging_in(handed_out(), "msi", "b-tenant"))["args"]


def test_an_administrators_certificate_is_never_passed_on() -> None:
    with pytest.raises(resources.KubeconfigError, match="client-key-data") as refusal:
        resources.logging_in(handed_out(**{"client-key-data": "Zm9v"}), "azurecli")
    assert "Zm9v" not in str(refusal.value)
    assert "adminKubeconfig" in str(refusal.value)


def test_proof_of_possession_is_kept_for_the_login_that_can_give_it() -> None:
    document = yaml.safe_load(handed_out())
    [user] = document["users"]
    flags = ["--pop-enabled", "--pop-claims", "u=the-cluster", "--server-id", "the-server"]
    user["user"]["exec"]["args"] = ["get-token", *flags, "--tenant-id", "a-tenant"]
    text = yaml.safe_dump(document)
    assert login(resources.logging_in(text, "spn"))["args"] == [
        *("get-token", "--login", "spn", "--server-id", "the-server", "--tenant-id", "a-tenant"),
        *("--pop-enabled", "--pop-claims", "u=the-cluster"),
    ]
    # kubelogin ignores it for all others: https://azure.github.io/kubelogin/concepts/azure-arc.html
    assert "--pop-enabled" not in login(resources.logging_in(text, "azurecli"))["args"]
