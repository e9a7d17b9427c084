"""Each rule of the recording double finds its mistake in its bad fixture, and none in a good one.

A good fixture in tests/azure is a resource as the program asks the plugin for it. A bad one is
`like` a good one `with` something else in it (null takes away); `at` that place the double `says`
what is wrong.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from core.values import UNKNOWN
from scripts.offline.azure_recording.catalog import TYPES
from scripts.offline.azure_recording.checking import without_nulls, wrong
from scripts.offline.azure_recording.rules import RULES
from scripts.offline.azure_recording.sdk import inputs_of

FIXTURES = Path(__file__).resolve().parents[1] / "azure"
GOOD = sorted(FIXTURES.glob("*.good.yaml"))
BAD = sorted(FIXTURES.glob("*.bad.yaml"))
OF_TYPES = "type-"
"""What fixtures begin with that the SDK's types refuse, not a rule."""


def resource(name: str) -> tuple[str, dict[str, Any]]:
    """Return the type and inputs in a good fixture."""
    read = yaml.safe_load((FIXTURES / f"{name}.good.yaml").read_text())
    return read["type"], read["inputs"]


def merged(value: Any, change: Any) -> Any:
    """Return `value` with `change` in it, as deep as both are maps."""
    if not isinstance(value, Mapping) or not isinstance(change, Mapping):
        return change
    return {**value, **{key: merged(value.get(key), inner) for key, inner in change.items()}}


def test_every_rule_has_a_bad_fixture_and_none_is_left_over() -> None:
    names = {path.name.removesuffix(".bad.yaml") for path in BAD}
    assert {name for name in names if not name.startswith(OF_TYPES)} == {r.name for r in RULES}


def test_no_two_rules_have_the_same_name() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)


def test_every_rule_says_where_it_is_documented_and_what_it_is_about() -> None:
    for rule in RULES:
        assert rule.source.startswith("https://learn.microsoft.com/"), rule.name
        assert set(rule.types) <= set(TYPES), rule.name


@pytest.mark.parametrize("path", GOOD, ids=lambda path: str(path.name))
def test_nothing_is_found_in_a_good_fixture(path: Path) -> None:
    token, inputs = resource(path.name.removesuffix(".good.yaml"))
    assert [str(each) for each in wrong(token, inputs)] == []


@pytest.mark.parametrize("path", BAD, ids=lambda path: str(path.name))
def test_a_mistake_is_found_where_it_is_with_what_is_allowed_instead(path: Path) -> None:
    fixture = yaml.safe_load(path.read_text())
    token, inputs = resource(fixture["like"])
    found = wrong(token, without_nulls(merged(inputs, fixture["with"])))
    assert [each.path for each in found] == [fixture["at"]], [str(each) for each in found]
    assert fixture["says"] in found[0].reason
    name = path.name.removesuffix(".bad.yaml")
    sources = [rule.source for rule in RULES if rule.name == name]
    assert all(source in found[0].reason for source in sources)


@pytest.mark.parametrize("path", GOOD, ids=lambda path: str(path.name))
def test_what_is_not_known_yet_is_no_mistake(path: Path) -> None:
    token, inputs = resource(path.name.removesuffix(".good.yaml"))
    for key in inputs:
        assert [str(each) for each in wrong(token, {**inputs, key: UNKNOWN})] == [], key


def test_several_mistakes_are_told_at_once() -> None:
    token, inputs = resource("spot-pool")
    found = wrong(token, {**inputs, "agentPoolName": "GPU", "spotMaxPrice": 0, "minCount": 5})
    assert {each.path for each in found} == {"agentPoolName", "spotMaxPrice", "minCount"}


def test_the_rules_hold_for_pools_inside_of_their_cluster() -> None:
    token, inputs = resource("cluster")
    pool = {"name": "Sys", "mode": "System", "count": 0, "vmSize": "Standard_B4ms"}
    found = wrong(token, {**inputs, "agentPoolProfiles": [pool]})
    at = "agentPoolProfiles[0]"
    assert {each.path for each in found} == {f"{at}.name", f"{at}.count", f"{at}.vmSize"}


@pytest.mark.parametrize("kind", TYPES.values(), ids=lambda kind: str(kind.token))
def test_the_catalog_names_properties_that_the_sdk_has(kind: Any) -> None:
    known = inputs_of(f"azure-native:{kind.token}").properties
    named = [*kind.parameters, *kind.replaced, *kind.refused]
    assert {name.partition(".")[0].partition("[")[0] for name in named} <= set(known)
