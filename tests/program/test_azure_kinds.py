"""What clusters on Azure and on Azure Local have in common, as the program declares them."""

from pathlib import Path

import pulumi
import pytest
import yaml

from clusters.azure import checks
from tests.program.declared import Declare, Declared, Program, declare, secret

before_update = checks.before_update
STACKS = Path(__file__).resolve().parents[2] / "stacks"
ME = "11111111-2222-3333-4444-555555555555"
LOCK = "azure-native:authorization:ManagementLockByScope"
KUBERNETES = "pulumi:providers:kubernetes"
IDS = {
    "azure": "slipway-azure/providers/Microsoft.ContainerService/managedClusters/slipway-azure",
    "azure-stack": "slipway-azure-stack/azure-stack",
}
"""What ends the ID of each stack's cluster, after `/resourceGroups/`."""


@pytest.fixture(params=IDS)
def stack(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def program(stack: str, changed: Declare) -> Program:
    return changed(stack, subscription=ME)


def azure(program: Program) -> list[Declared]:
    return [each for each in program.resources if each.type.startswith("azure-native:")]


def test_resources_use_the_configured_subscription(changed: Declare, stack: str) -> None:
    program = changed(stack, subscription=ME, tenant=ME)
    provider = program.one("pulumi:providers:azure-native")
    assert (provider.inputs["subscriptionId"], provider.inputs["tenantId"]) == (ME, ME)
    assert azure(program)
    for each in azure(program):
        assert each.provider.startswith(provider.urn), each.urn


def test_production_is_protected(changed: Declare, stack: str) -> None:
    program = changed(stack, subscription=ME, production=True)
    # What is removed first, on the way to a stack that can be destroyed.
    assert [each.type for each in azure(program) if not each.protected] == [LOCK]
    lock = program.one(LOCK).inputs
    assert (lock["level"], lock["scope"]) == ("CanNotDelete", f"{stack}-id")


def test_what_is_not_production_can_be_destroyed(program: Program) -> None:
    assert [each.urn for each in azure(program) if each.protected] == []
    assert program.of(LOCK) == []


def test_the_kubeconfig_logs_in_as_the_person(changed: Declare, stack: str) -> None:
    program = changed(stack, subscription=ME, tenant=ME)
    kubeconfig = program.one(KUBERNETES).inputs["kubeconfig"]
    assert kubeconfig == program.outputs["kubeconfig"] == secret(kubeconfig["value"])
    (user,) = yaml.safe_load(kubeconfig["value"])["users"]
    assert user["user"].keys() == {"exec"}
    assert user["user"]["exec"]["command"] == "kubelogin"
    assert user["user"]["exec"]["args"][:3] == ["get-token", "--login", "azurecli"]
    assert user["user"]["exec"]["args"][-2:] == ["--tenant-id", ME]


def test_the_admin_kubeconfig_is_used_only_when_set(changed: Declare, stack: str) -> None:
    program = changed(stack, subscription=ME, adminKubeconfig=True)
    assert program.one(KUBERNETES).inputs["kubeconfig"] == secret("an admin's")


def test_another_kubeconfig_is_the_same_cluster(program: Program, stack: str) -> None:
    known = program.one(KUBERNETES).inputs["clusterIdentifier"]
    assert known == f"/subscriptions/{ME}/resourceGroups/{IDS[stack]}"


def test_nothing_is_in_the_cluster_before_it_lets_this_account_in(program: Program) -> None:
    access = program.one("slipway:clusters:Access")
    objects = [each for each in program.resources if each.type.startswith("kubernetes:")]
    assert objects
    assert [each.urn for each in objects if access.urn not in program.needs(each)] == []


def test_templates_declare_nothing(stack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    register = pulumi.Resource.__init__

    def noted(self: pulumi.Resource, token: str, *args: object, **options: object) -> None:
        seen.append(token)
        register(self, token, *args, **options)  # type: ignore[arg-type]

    # The other tests of programs do without it.
    monkeypatch.setattr(checks, "before_update", before_update)
    monkeypatch.setattr(pulumi.Resource, "__init__", noted)
    with pytest.raises(pulumi.RunError, match="is a placeholder; replace it with") as caught:
        declare(STACKS / f"{stack}.yaml", monkeypatch)
    assert f"Correct Pulumi.{stack}.yaml" in str(caught.value)
    assert set(seen) <= {"pulumi:pulumi:Stack"}
