"""What of an Azure account makes AKS refuse a cluster is found before anything is made."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clusters.aks.account import problems
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
        listed = problems(settings("azure", section))
        return {each.key.removeprefix("slipway:cluster."): each.text for each in listed}

    return find


def unchanged(_answers: dict[str, Any]) -> None: ...


def test_an_account_with_all_that_is_needed_has_no_problem(found: Any) -> None:
    assert found(unchanged) == {}


def test_who_is_not_logged_in_is_asked_nothing_more(found: Any) -> None:
    (problem,) = found(lambda answers: answers.clear()).items()
    assert problem[0] == "subscription"
    assert "run `az login`" in problem[1]


def limit(name: str, value: int) -> Change:
    def change(answers: dict[str, Any]) -> None:
        (usage,) = (each for each in answers["vm list-usage"] if each["name"]["value"] == name)
        usage["limit"] = str(value)

    return change


@pytest.mark.parametrize(
    ("change", "settings", "key", "text"),
    [
        (
            lambda answers: answers["ad signed-in-user show"].update(id="somebody"),
            {},
            "admins",
            "add somebody to users",
        ),
        (
            lambda answers: answers["provider list"].pop(),
            {},
            "subscription",
            "has Microsoft.Storage as NotRegistered; run `az provider register",
        ),
        (
            lambda answers: answers["vm list-skus"][GPU]["restrictions"].append(
                {"type": "Location", "reasonCode": "NotAvailableForSubscription"}
            ),
            {},
            "gpu.size",
            "can't be had in westeurope: NotAvailableForSubscription",
        ),
        (
            lambda answers: answers["vm list-skus"].pop(SYSTEM),
            {},
            "system.size",
            "no such size is offered",
        ),
        (
            limit("Standard NCASv3_T4 Family", 4),
            {},
            "gpu.maxNodes",
            "may grow to 8 vCPUs of Standard NCASv3_T4 Family, whose quota in westeurope is 4",
        ),
        (limit("cores", 19), {}, "gpu.maxNodes", "may grow to 20 vCPUs of cores"),
        (
            limit("lowPriorityCores", 7),
            {"gpu": {"spot": {}}},
            "gpu.maxNodes",
            "may grow to 8 vCPUs of lowPriorityCores",
        ),
    ],
    ids=["admin", "provider", "restricted", "size", "family", "all cores", "spot"],
)
def test_each_problem_names_the_key_and_the_way_out(
    change: Change, settings: dict[str, Any], key: str, text: str, found: Any
) -> None:
    (problem,) = found(change, **settings).items()
    assert problem[0] == key
    assert text in problem[1]


def test_all_problems_are_told_at_once(found: Any) -> None:
    def change(answers: dict[str, Any]) -> None:
        answers["ad signed-in-user show"]["id"] = "somebody"
        answers["provider list"].pop()
        limit("lowPriorityCores", 0)(answers)

    assert sorted(found(change, gpu={"spot": {}})) == ["admins", "gpu.maxNodes", "subscription"]


def test_a_member_of_a_group_is_an_administrator(found: Any) -> None:
    group = "11111111-2222-3333-4444-555555555555"

    def change(answers: dict[str, Any]) -> None:
        answers["ad user get-member-groups"][0]["id"] = group

    assert found(change, admins={"groups": [group]}) == {}
    assert "admins" in found(unchanged, admins={"groups": [group]})


def test_what_one_may_not_ask_is_held_against_nobody(found: Any) -> None:
    def change(answers: dict[str, Any]) -> None:
        for command in set(answers) - {"account show"}:
            del answers[command]

    assert found(change) == {}
