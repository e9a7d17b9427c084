"""What a stack may say of its cluster, for every kind, and what it is told that is wrong.

tests/clusters has two files for each kind. `<kind>.good.yaml` holds settings that are allowed, by
case: `least` is what has to be said. `<kind>.bad.yaml` holds mistakes, by case: a good
case (`least`, or the one that `of` names) with `change` put over it and the keys in `without`
taken out; and in `says` every problem that is told, by its key below `slipway:cluster`, with words
of its text.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters.kinds import CLUSTERS
from infra.settings import SettingsError, StackSettings, parse

FIXTURES = Path(__file__).resolve().parents[2] / "clusters"
KEY = "slipway:cluster"


def cases(verdict: str) -> list[Any]:
    """Return each case with its kind."""
    return [
        pytest.param(path.name.split(".")[0], case, id=f"{path.name.split('.')[0]}: {name}")
        for path in sorted(FIXTURES.glob(f"*.{verdict}.yaml"))
        for name, case in yaml.safe_load(path.read_text()).items()
    ]


def good(kind: str) -> dict[str, dict[str, Any]]:
    loaded: dict[str, dict[str, Any]] = yaml.safe_load((FIXTURES / f"{kind}.good.yaml").read_text())
    return loaded


def merged(base: Any, change: Any) -> Any:
    if not isinstance(base, Mapping) or not isinstance(change, Mapping):
        return change
    return {**base, **{key: merged(base.get(key), value) for key, value in change.items()}}


def parsed(cluster: Mapping[str, Any]) -> StackSettings:
    return parse({KEY: json.dumps(cluster)}, "dev")


def test_every_kind_has_good_and_bad_settings_and_none_is_left_over() -> None:
    wanted = {f"{kind}.{verdict}.yaml" for kind in CLUSTERS for verdict in ("good", "bad")}
    assert {path.name for path in FIXTURES.iterdir()} == wanted


@pytest.mark.parametrize(("kind", "cluster"), cases("good"))
def test_good_settings_are_taken(kind: str, cluster: dict[str, Any]) -> None:
    settings = parsed(cluster)
    assert settings.cluster.kind == kind


@pytest.mark.parametrize(("kind", "case"), cases("bad"))
def test_wrong_settings_are_reported_together_with_what_is_allowed(
    kind: str, case: dict[str, Any]
) -> None:
    assert case.keys() <= {"of", "change", "without", "says"}
    base = good(kind)[case.get("of", "least")]
    left = {key: value for key, value in base.items() if key not in case.get("without", ())}
    assert len(left) == len(base) - len(case.get("without", ())), "takes out what is not there"
    with pytest.raises(SettingsError) as caught:
        parsed(merged(left, case.get("change", {})))
    told = {each.key.removeprefix(f"{KEY}."): each.text for each in caught.value.problems}
    assert told.keys() == case["says"].keys()
    assert {key: words for key, words in case["says"].items() if words not in told[key]} == {}


@pytest.mark.parametrize("kind", ["aks", "azure-stack"])
def test_more_tags_than_azure_takes_are_refused(kind: str) -> None:
    tags = {f"tag-{each}": "x" for each in range(48)}
    with pytest.raises(SettingsError, match=r"tags: .* at most 47"):
        parsed({**good(kind)["least"], "tags": tags})
    tags.popitem()
    assert parsed({**good(kind)["least"], "tags": tags}).cluster.kind == kind


def test_more_authorized_ranges_than_aks_takes_are_refused() -> None:
    ranges = [f"198.51.100.{each}/32" for each in range(201)]
    least = good("aks")["least"]
    with pytest.raises(SettingsError, match=r"authorizedRanges: .* must be a list of at most"):
        parsed({**least, "api": {"authorizedRanges": ranges}})
    assert parsed({**least, "api": {"authorizedRanges": ranges[:200]}}).cluster.kind == "aks"
