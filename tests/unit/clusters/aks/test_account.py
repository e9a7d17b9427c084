"""What of an Azure account makes AKS refuse a cluster is found before anything is made."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clusters.aks.account import administrators, problems
from clusters.azure.checks import login
from tests.doubles import recorded_az
from tests.engine.azure_stack import own
from tests.unit.clusters.azure.test_checks import settings, template

Change = Callable[[dict[str, Any]], Any]
SYSTEM, GPU = 0, 1


@pytest.fixture
def found(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., dict[str, str]]:
    """Return what finds problems, by key, once `change` has been made to what az answers."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def find(change: Change, **changes: Any) -> dict[str, str]:
        answers = recorded_az.answers()
        change(answers)
        recorded_az.install(tmp_path, answers)
        section = {**own(template("azure", root)), **changes}
        wanted = settings("azure", section)
        listed = login(wanted, lambda account: problems(wanted, account))
        return {each.key.removeprefix("slipway:cluster."): each.text for each in listed}

    return find


def unchanged(_answers: dict[str, Any]) -> None: ...


@pytest.mark.parametrize(
    ("tenant", "command"),
    [({}, "`az login`"), ({"tenant": recorded_az.ME}, f"`az login --tenant {recorded_az.ME}`")],
)
def test_who_is_not_logged_in_is_asked_nothing_more(
    tenant: dict[str, str], command: str, found: Any
) -> None:
    ((key, text),) = found(lambda answers: answers.clear(), **tenant).items()
    assert key == "subscription"
    assert f"run {command}" in text


def test_another_tenant_than_the_subscriptions_is_refused(found: Any) -> None:
    assert found(unchanged, tenant=recorded_az.ME.upper()) == {}
    other = "11111111-2222-3333-4444-555555555555"
    assert found(unchanged, tenant=other) == {
        "tenant": f"{other} is not the subscription's tenant, {recorded_az.ME}; set that "
        "tenant, or a different subscription"
    }


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


FAMILY, SPOT, LIMIT = "Standard NCASv3_T4 Family", "lowPriorityCores", "gpu.maxNodes"
FALLING_BACK: dict[str, Any] = {"gpu": {"spot": {"fallback": {}}}}
ANOTHER = {"gpu": {"spot": {"fallback": {"size": "Standard_NC8as_T4_v3"}}}}
ELSEWHERE = '"westeurop" is not listed by `az account list-locations`. Did you mean westeurope?'
UNREGISTERED = "has the resource provider Microsoft.Storage in the state NotRegistered; run `az "
RESTRICTED = "is not available in westeurope: NotAvailableForSubscription"
QUOTA = f"allows 8 vCPUs of {FAMILY}, but the quota in westeurope is "
NOT_OFFERED = "Standard_NC8as_T4_v3 is not available in westeurope: Azure does not offer it there"


@pytest.mark.parametrize(
    ("change", "settings", "key", "text"),
    [
        (somebody, {}, "admins", "add somebody to users"),
        (without("provider list"), {}, "subscription", UNREGISTERED),
        (unchanged, {"location": "westeurop"}, "location", ELSEWHERE),
        (restricted, {}, "gpu.size", RESTRICTED),
        (without("vm list-skus", SYSTEM), {}, "system.size", "Azure does not offer it there"),
        (limit(FAMILY, 4), {}, LIMIT, f"{QUOTA}4"),
        (limit("cores", 19), {}, LIMIT, "allows 20 vCPUs of cores"),
        (limit(SPOT, 7), {"gpu": {"spot": {}}}, LIMIT, f"allows 8 vCPUs of {SPOT}"),
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


def test_all_problems_are_reported_together(found: Any) -> None:
    def change(answers: dict[str, Any]) -> None:
        for each in (somebody, without("provider list"), limit(SPOT, 0)):
            each(answers)

    assert sorted(found(change, gpu={"spot": {}})) == ["admins", "gpu.maxNodes", "subscription"]


def test_who_is_or_becomes_an_administrator_is_no_problem(found: Any) -> None:
    group = "11111111-2222-3333-4444-555555555555"

    def change(answers: dict[str, Any]) -> None:
        answers["ad user get-member-groups"][0]["id"] = group

    assert found(change, admins={"groups": [group]}) == {}
    assert "admins" in found(unchanged, admins={"groups": [group]})
    assert found(somebody, admins={}) == {}


def test_a_preview_works_without_a_login(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr("pulumi.runtime.is_dry_run", lambda: True)
    assert administrators(settings("azure", {**own(template("azure", root)), "admins": {}})) == {}


def test_an_existing_subnet_has_what_nodes_need_and_is_in_no_other_range(found: Any) -> None:
    which = "providers/Microsoft.Network/virtualNetworks/ours/subnets/ours"
    subnet = f"/subscriptions/{recorded_az.ME}/resourceGroups/ours/{which}"
    network = {"subnet": subnet, "pods": "10.9.0.0/16"}

    def lists(**answer: Any) -> Change:
        return lambda answers: answers.update({"network vnet subnet show": answer})

    endpoints = [{"service": "Microsoft.Storage"}]
    good = lists(addressPrefix="10.8.0.0/24", serviceEndpoints=endpoints)
    assert found(good, network=network) == {}
    bad = lists(addressPrefix=None, addressPrefixes=["10.8.0.0/24", "10.9.1.0/24"])
    assert found(bad, network=network) == {
        "network.subnet": "has no service endpoint Microsoft.Storage, which nodes need for the "
        "storage account; add it",
        "network.pods": "10.9.0.0/16 overlaps the subnet, 10.9.1.0/24; choose another range",
    }


def test_checks_without_permission_report_no_problem(found: Any) -> None:
    def change(answers: dict[str, Any]) -> None:
        for command in set(answers) - {"account show"}:
            del answers[command]

    assert found(change) == found(unchanged) == {}
