"""What an update of a cluster on Azure refuses before it declares anything."""

from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from clusters import CLUSTERS
from clusters.azure.beforehand import check, missing, placeholders
from clusters.azure.cores import cores, for_pods
from clusters.azure.regions import misspelt
from core.validation import check as read
from tests.engine.azure_stack import own

STACKS = {"azure": "aks", "azure-stack": "azure-stack"}


def template(stack: str, root: Path) -> dict[str, Any]:
    document = yaml.safe_load((root / "stacks" / f"{stack}.yaml").read_text())
    section: dict[str, Any] = document["config"]["slipway:cluster"]
    return section


def settings(stack: str, section: dict[str, Any]) -> Any:
    said = {key: value for key, value in section.items() if key != "kind"}
    found = read(
        CLUSTERS[STACKS[stack]].settings.load(), said, "slipway:cluster", base={"name": stack}
    )
    assert not isinstance(found, list), list(map(str, found))
    return found


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with no programs but those that a test writes here."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(pulumi, "get_stack", lambda: "azure")
    return tmp_path


def install(name: str, directory: Path) -> None:
    (directory / name).write_text("#!/bin/sh\n")
    (directory / name).chmod(0o755)


@pytest.mark.parametrize(
    ("stack", "keys"),
    [
        (
            "azure",
            ["subscription", "api.authorizedRanges[0]", "admins.users[0]", "budget.emails[0]"],
        ),
        (
            "azure-stack",
            [
                "subscription",
                "customLocation",
                "sshKey",
                "entra.adminGroups[0]",
                "registry.server",
            ],
        ),
    ],
)
def test_every_placeholder_of_a_stack_is_told_with_what_to_put_there(
    stack: str, keys: list[str], root: Path
) -> None:
    found = placeholders(settings(stack, template(stack, root)))
    assert [each.key for each in found] == [f"slipway:cluster.{key}" for key in keys]
    assert all("is a placeholder; put in " in each.text for each in found)
    assert found[0].text.endswith("what `az account show --query id` prints")


@pytest.mark.parametrize("stack", STACKS)
def test_values_of_ones_own_are_no_placeholders(stack: str, root: Path) -> None:
    assert placeholders(settings(stack, own(template(stack, root)))) == []


@pytest.mark.parametrize("stack", STACKS)
def test_an_update_refuses_placeholders_and_missing_programs_all_at_once(
    stack: str, root: Path, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bare.is_dir()
    wanted = settings(stack, template(stack, root))
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: False)
    with pytest.raises(pulumi.RunError) as caught:
        check(wanted)
    told = str(caught.value)
    assert told.count("is a placeholder") == len(placeholders(wanted))
    assert "az: is needed and not on PATH; install Azure's CLI" in told
    assert "kubelogin: is needed and not on PATH; install it: az aks install-cli" in told
    assert "Correct Pulumi.azure.yaml" in told


@pytest.mark.parametrize("stack", STACKS)
def test_a_preview_warns_of_the_same_and_goes_on(
    stack: str, root: Path, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("az", bare)
    said: list[str] = []
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    monkeypatch.setattr("pulumi.log.warn", said.append)
    check(settings(stack, template(stack, root)))
    (warning,) = said
    assert "slipway:cluster.subscription" in warning
    assert "kubelogin: is needed" in warning
    assert "az: is needed" not in warning


def test_an_update_with_ones_own_values_and_both_programs_goes_on(
    root: Path, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("az", bare)
    install("kubelogin", bare)
    said: list[str] = []
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: False)
    monkeypatch.setattr("pulumi.log.warn", said.append)
    check(settings("azure", own(template("azure", root))), pushes=True)
    assert said == []


@pytest.mark.parametrize(
    ("change", "pushes", "names"),
    [
        ({}, False, ["az", "kubelogin"]),
        ({"login": "workloadidentity"}, False, ["kubelogin"]),
        ({"login": "workloadidentity"}, True, ["az", "kubelogin"]),
        ({"adminKubeconfig": True}, False, []),
        ({"adminKubeconfig": True}, True, ["az"]),
    ],
)
def test_a_program_is_only_asked_for_where_something_uses_it(
    change: dict[str, Any], pushes: bool, names: list[str], root: Path, bare: Path
) -> None:
    assert bare.is_dir()
    wanted = settings("azure", {**template("azure", root), **change})
    assert [each.key for each in missing(wanted, pushes=pushes)] == names


@pytest.mark.parametrize(
    ("size", "there"),
    [
        ("Standard_D4s_v5", 4),
        ("Standard_NC24ads_A100_v4", 24),
        ("Standard_ND96isr_H100_v5", 96),
        ("Standard_E8-4s_v5", 4),
        ("Standard_D3_v2", None),
        ("Standard_A4_v2", None),
    ],
)
def test_a_size_says_how_many_cores_there_are(size: str, there: int | None) -> None:
    assert cores(size) == there


def test_pods_get_no_cores_that_aks_keeps_for_itself() -> None:
    kept = {size: for_pods(size) for size in ("Standard_D4s_v5", "Standard_D96s_v5", "Standard_A1")}
    assert list(map(str, kept.values())) == ["3.86", "95.26", "None"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("westeurop", "westeurope"),
        ("swedencentrall", "swedencentral"),
        ("westeurope", None),
        ("westus4", None),
        ("southafricaeast", None),
        ("atlantis", None),
    ],
)
def test_a_misspelt_region_is_told_from_a_new_one(name: str, meant: str | None) -> None:
    assert misspelt(name) == meant
