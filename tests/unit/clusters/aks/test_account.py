"""What of an Azure account makes AKS refuse a cluster is found before anything is made."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clusters.aks.account import administrators, problems
from clusters.azure.checks import login
from tests.doubles import recorded_az
from tests.engine.azure_stack import own
from tests.unit.clusters.azure.test_checks import settings

Change = Callable[[dict[str, Any]], Any]
SYSTEM, GPU = 0, 1


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, str]]:
    """Return what finds problems, by key, once `change` has been made to what az answers."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def find(change: Change, **changes: Any) -> dict[str, str]:
        answers = recorded_az.answers()
        change(answers)
        recorded_az.install(tmp_path, answers)
        section = own("azure", **changes)
        wanted = settings("azure", section)
        listed = login(wanted, lambda account: problems(wanted, account))
        return {each.key.removeprefix("slipway:cluster."): each.text for each in listed}

    return find


def limit(name: str, value: int) -> Change:
    def change(answers: dict[str, Any]) -> None:
        (usage,) = (each for each in answers["vm list-usage"] if each["name"]["value"] == name)
        usage["limit"] = str(value)

    return change


def restricted(answers: dict[str, Any]) -> None:
    reason = {"type": "Location", "reasonCode": "NotAvailableForSubscription"}
    answers["vm list-skus"][GPU]["restrictions"].append(reason)


def without(command: str, which: int = -1) -> Change:
    return lambda answers: answers[command].pop(which)


def somebody(answers: dict[str, Any]) -> None:
    answers["ad signed-in-user show"]["id"] = "somebody"


def unchanged(_answers: dict[str, Any]) -> None: ...


def unreadable(answers: dict[str, Any]) -> None:
    for command in set(answers) - {"account show"}:
        del answers[command]


def member(answers: dict[str, Any]) -> None:
    answers["ad user get-member-groups"][0]["id"] = OTHER


def subnet(*ranges: str, endpoints: bool) -> Change:
    # A subnet has one prefix, or several.
    prefixes = {"addressPrefix": ranges[0]} if len(ranges) == 1 else {"addressPrefixes": ranges}
    listed = [{"service": "Microsoft.Storage"}] if endpoints else None
    answer = {**prefixes, "serviceEndpoints": listed}
    return lambda answers: answers.update({"network vnet subnet show": answer})


ME, OTHER = recorded_az.ME, "11111111-2222-3333-4444-555555555555"
GROUP = {"admins": {"groups": [OTHER]}}
OURS = "providers/Microsoft.Network/virtualNetworks/ours/subnets/ours"
SUBNET = f"/subscriptions/{ME}/resourceGroups/ours/{OURS}"
NETWORK = {"network": {"subnet": SUBNET, "pods": "10.9.0.0/16"}}
NOT_ITS = f"{OTHER} is not the subscription's tenant, {ME}; set that tenant, or a different subs"
FAMILY, SPOT, LIMIT = "Standard NCASv3_T4 Family", "lowPriorityCores", "gpu.maxNodes"
FALLING_BACK: dict[str, Any] = {"gpu": {"spot": {"fallback": {}}}}
ANOTHER = {"gpu": {"spot": {"fallback": {"size": "Standard_NC8as_T4_v3"}}}}
ELSEWHERE = '"westeurop" is not listed by `az account list-locations`. Did you mean westeurope?'
UNREGISTERED = (
    f"run `az provider register --namespace Microsoft.Storage --wait --subscription {ME}`"
)
RESTRICTED = "is not available in westeurope: NotAvailableForSubscription"
QUOTA = f"allows 8 vCPUs of {FAMILY}, but the quota in westeurope is "
NOT_OFFERED = "Standard_NC8as_T4_v3 is not available in westeurope: Azure does not offer it there"


@pytest.mark.parametrize(
    ("change", "settings", "key", "text"),
    [
        (dict.clear, {}, "subscription", "run `az login`"),
        (dict.clear, {"tenant": ME}, "subscription", f"run `az login --tenant {ME}`"),
        (unchanged, {"tenant": OTHER}, "tenant", NOT_ITS),
        (somebody, {}, "admins", "add somebody to users"),
        (unchanged, GROUP, "admins", "add "),
        (without("provider list"), {}, "subscription", UNREGISTERED),
        (unchanged, {"location": "westeurop"}, "location", ELSEWHERE),
        (restricted, {}, "gpu.size", RESTRICTED),
        (without("vm list-skus", SYSTEM), {}, "system.size", "Azure does not offer it there"),
        (limit(FAMILY, 4), {}, LIMIT, f"{QUOTA}4"),
        (limit("cores", 19), {}, LIMIT, "allows 20 vCPUs of cores"),
        (limit(FAMILY, 7), FALLING_BACK, "gpu.spot.fallback.maxNodes", f"{QUOTA}7"),
        (limit(SPOT, 7), FALLING_BACK, LIMIT, f"allows 8 vCPUs of {SPOT}"),
        (without("vm list-skus", GPU), FALLING_BACK, "gpu.size", "Azure does not offer it there"),
        (unchanged, ANOTHER, "gpu.spot.fallback.size", NOT_OFFERED),
    ],
)
def test_each_problem_names_the_key_and_the_way_out(
    change: Change, settings: dict[str, Any], key: str, text: str, found: Any
) -> None:
    (problem,) = found(change, **settings).items()
    assert problem[0] == key
    assert text in problem[1]


@pytest.mark.parametrize(
    ("change", "settings"),
    [
        (unchanged, {}),
        (unchanged, {"tenant": ME.upper()}),
        (member, GROUP),
        (unchanged, {"admins": {"users": [ME.upper()]}}),
        # The cluster is not used with that login.
        (somebody, {"adminKubeconfig": True}),
        # By default the caller is the administrator.
        (somebody, {"admins": {}}),
        (subnet("10.8.0.0/24", endpoints=True), NETWORK),
        (unreadable, {}),
    ],
)
def test_what_is_right_or_cannot_be_read_is_no_problem(
    change: Change, settings: dict[str, Any], found: Any
) -> None:
    assert found(change, **settings) == {}


def test_an_existing_subnet_has_what_nodes_need_and_is_in_no_other_range(found: Any) -> None:
    assert found(subnet("10.8.0.0/24", "10.9.1.0/24", endpoints=False), **NETWORK) == {
        "network.subnet": "has no service endpoint Microsoft.Storage, which nodes need for the "
        "storage account; add it",
        "network.pods": "10.9.0.0/16 overlaps the subnet, 10.9.1.0/24; choose another range",
    }


def test_all_problems_are_reported_together(found: Any) -> None:
    def change(answers: dict[str, Any]) -> None:
        somebody(answers)
        limit(SPOT, 0)(answers)

    assert found(change, gpu={"spot": {}}).keys() == {"admins", "gpu.maxNodes"}


def test_a_preview_works_without_a_login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr("pulumi.runtime.is_dry_run", lambda: True)
    assert administrators(settings("azure", own("azure", admins={}))) == {}
