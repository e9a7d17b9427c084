"""What a stack may say of its cluster, for every kind, and what it is told that is wrong.

tests/clusters has two files for each kind. `<kind>.good.yaml` holds settings that are allowed, by
case: `least` is what has to be said. `<kind>.bad.yaml` holds mistakes, by case: a good
case (`least`, or the one that `of` names) with `change` put over it and the keys in `without`
taken out; and in `says` every problem that is told, by its key below `slipway:cluster`, with words
of its text.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import TypeAdapter

from clusters.kinds import CLUSTERS
from core.schema import Schema
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


def named(schema: Schema) -> Iterator[tuple[str, ...]]:
    """Yield the path of every setting that a kind has, those inside of others included."""
    for name in schema.names:
        yield (name,)
        below = schema.below(name)
        inside = below.below(0) if "items" in str(below.node) else below
        yield from ((name, *rest) for rest in named(inside))


def said(value: Any) -> Iterator[tuple[str, ...]]:
    """Yield the path of every key in a document; the items of a list count as one."""
    if isinstance(value, Mapping):
        for key, inside in value.items():
            yield (key,)
            yield from ((key, *rest) for rest in said(inside))
    elif isinstance(value, list):
        for each in value:
            yield from said(each)


def tags(number: int) -> dict[str, str]:
    return {f"tag-{each}": "x" for each in range(number)}


def api(ranges: int) -> dict[str, Any]:
    return {"api": {"authorizedRanges": [f"198.51.100.{each}/32" for each in range(ranges)]}}


def test_every_kind_has_good_and_bad_settings_and_none_is_left_over() -> None:
    wanted = {f"{kind}.{verdict}.yaml" for kind in CLUSTERS for verdict in ("good", "bad")}
    assert {path.name for path in FIXTURES.iterdir()} == wanted


@pytest.mark.parametrize(("kind", "cluster"), cases("good"))
def test_good_settings_are_taken(kind: str, cluster: dict[str, Any]) -> None:
    settings = parsed(cluster)
    assert settings.cluster.kind == kind


@pytest.mark.parametrize("kind", CLUSTERS)
def test_every_setting_of_a_kind_is_in_one_of_its_good_cases(kind: str) -> None:
    document = TypeAdapter(CLUSTERS[kind].settings.load()).json_schema()
    schema = Schema(document, document.get("$defs", {}))
    there = {path for case in good(kind).values() for path in said(case)}
    assert sorted(set(named(schema)) - there) == []


@pytest.mark.parametrize(("kind", "case"), cases("bad"))
def test_wrong_settings_are_reported_together(kind: str, case: dict[str, Any]) -> None:
    """Wrong settings of every kind are told all at once with key, value and what is allowed."""
    assert case.keys() <= {"of", "change", "without", "says"}
    base = good(kind)[case.get("of", "least")]
    left = {key: value for key, value in base.items() if key not in case.get("without", ())}
    assert len(left) == len(base) - len(case.get("without", ())), "takes out what is not there"
    with pytest.raises(SettingsError) as caught:
        parsed(merged(left, case.get("change", {})))
    told = {each.key.removeprefix(f"{KEY}."): each.text for each in caught.value.problems}
    assert told.keys() == case["says"].keys()
    assert {key: words for key, words in case["says"].items() if words not in told[key]} == {}


@pytest.mark.parametrize(
    ("kind", "taken", "refused", "told"),
    [
        *((kind, {"tags": tags(48)}, {"tags": tags(49)}, "tags: .* at most 48")
          for kind in ("aks", "azure-stack")),
        ("aks", api(200), api(201), "authorizedRanges: .* must be a list of at most"),
    ],
)  # fmt: skip
def test_more_than_azure_takes_is_refused(
    kind: str, taken: dict[str, Any], refused: dict[str, Any], told: str
) -> None:
    least = good(kind)["least"]
    assert parsed(least | taken).cluster.kind == kind
    with pytest.raises(SettingsError, match=told):
        parsed(least | refused)
