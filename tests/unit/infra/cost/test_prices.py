"""A price table becomes values, or is told everything that is wrong with it."""

import json
import re
from datetime import date
from pathlib import Path

import pytest
import yaml

from clusters.azure.facts import GPUS, cores
from clusters.kinds import CLUSTERS
from infra.cost import prices
from infra.cost.estimates import estimate
from infra.cost.prices import PriceTable, Source
from infra.settings import SettingsError, parse
from tests.unit.not_none import not_none

GOOD = """
currency: EUR
sources:
  offer: {publisher: our contract, url: "https://example.org/offer", date: 2026-01-31}
prices:
  - source: offer
    provider: azure
    region: westeurope
    hourly: {Standard_D4s_v5: 0.1, Standard_NC4as_T4_v3: 1}
    spot: {Standard_NC4as_T4_v3: 0.25}
notIncluded: [disks]
"""


PLACE = "source: offer, provider: azure, region: westeurope"
AGAIN = f"  - {{{PLACE}, hourly: {{Standard_D4s_v5: 2}}}}\nnotIncluded"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "prices.yaml"
    path.write_text(GOOD)
    return path


def read(file: Path | str) -> PriceTable:
    found = prices.read(str(file))
    assert isinstance(found, PriceTable), found
    return found


def problems(file: Path) -> str:
    found = prices.read(str(file))
    assert isinstance(found, list)
    assert {each.key for each in found} == {"slipway:prices"}
    assert all(json.dumps(str(file))[:50] in each.text for each in found)
    return "\n".join(str(each) for each in found)


def test_a_table_says_what_a_node_costs_who_says_so_and_when(file: Path) -> None:
    table = read(file)
    price = not_none(table.price("azure", "westeurope", "Standard_D4s_v5"))
    day, page = date(2026, 1, 31), "https://example.org/offer"
    assert price.source == Source(publisher="our contract", url=page, date=day)
    assert str(price.amount) == "0.1"
    spot = not_none(table.price("azure", "westeurope", "Standard_NC4as_T4_v3", spot=True))
    assert str(spot.amount) == "0.25"
    assert table.price("azure", "westeurope", "Standard_D4s_v5", spot=True) is None


def test_a_path_is_relative_to_the_stacks_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIPWAY_PROJECT", str(file.parent))
    assert read("prices.yaml") == read(file)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("EUR", "euro", ["currency", '"euro" is not allowed', "three letters"]),
        ("2026-01-31", "lately", ["sources.offer.date", '"lately"', "a day such as"]),
        ("publisher: our contract, ", "", ["sources.offer.publisher: is missing"]),
        ("https://example.org/offer", "the web", ["sources.offer.url", "https://"]),
        ("source: offer", "source: ofer", ["prices[0].source", 'did you mean "offer"?']),
        ("0.1", "cheap", ["prices[0].hourly.Standard_D4s_v5", '"cheap" is not', "a number"]),
        ("0.1", "0", ["prices[0].hourly.Standard_D4s_v5: 0 is not", "a number above 0"]),
        ("0.1", ".nan", ["prices[0].hourly.Standard_D4s_v5", "a number above 0"]),
        ("hourly", "hurly", ["prices[0].hurly", 'did you mean "hourly"?']),
        ("region: westeurope", "region: west europe", ["prices[0].region", "without spaces"]),
        ("notIncluded", AGAIN, ["prices[1].hourly.Standard_D4s_v5: already has a price in pri"]),
        (GOOD, "currency: [", ["can't be read as YAML"]),
        (GOOD, "- 1", ["is not a map"]),
        (GOOD, "", ["is not a map"]),
    ],
)
def test_problems_name_the_key_the_value_and_what_is_allowed(
    file: Path, before: str, after: str, words: list[str]
) -> None:
    assert before in GOOD
    file.write_text(GOOD.replace(before, after, 1))
    told = problems(file)
    assert [word for word in words if word not in told] == []


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "can't be read" in problems(tmp_path / "none.yaml")


def test_the_repositorys_table_has_a_source_of_every_price_and_azures_known_sizes() -> None:
    table = prices.default()
    assert table.not_included
    for tariff in table.prices:
        source = table.sources[tariff.source]
        assert source.publisher
        assert source.url.startswith("https://")
        assert all(table.price(tariff.provider, tariff.region, size) for size in tariff.hourly)
        # Without them the stack that comes with Slipway has no estimate there.
        assert {"Standard_D4s_v5", "Standard_D8s_v5"} <= tariff.hourly.keys()
    sizes = {size for each in table.prices for size in each.hourly}
    assert sizes >= GPUS.keys()
    assert all(cores(size) for size in sizes)


def documented(root: Path, language: str) -> str:
    """Return the first block of a language in the documentation of costs."""
    page = (root / "docs/costs.md").read_text()
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return next(str(body) for named, body in blocks if named == language)


def test_the_table_in_the_documentation_is_taken_as_it_stands(file: Path, root: Path) -> None:
    file.write_text(documented(root, "yaml"))
    assert read(file).price("azure", "northeurope", "Standard_NC4as_T4_v3", spot=True) is not None


def test_the_documentation_shows_what_the_azure_stack_says(root: Path) -> None:
    config = yaml.safe_load((root / "stacks/azure.yaml").read_text())["config"]
    cluster = parse({key: json.dumps(value) for key, value in config.items()}, "azure").cluster
    pools = CLUSTERS[cluster.kind].pools(cluster.options)
    shown = documented(root, "").rstrip("\n")
    assert shown == estimate(pools, prices.default())


@pytest.mark.parametrize("value", ["{}", '""', "null"])
def test_the_setting_takes_nothing_but_a_path(value: str) -> None:
    config = {"slipway:cluster": '{"kind": "embedded"}', "slipway:prices": value}
    with pytest.raises(SettingsError, match=r"slipway:prices: .* must be the path of a price tab"):
        parse(config, "dev")


def test_a_wrong_table_is_reported_beside_other_problems(file: Path) -> None:
    wrong = GOOD.replace("EUR", "euro").replace("2026-01-31", "lately").replace("0.1", "-1")
    file.write_text(wrong)
    config = {"slipway:cluster": '{"kind": "embedded"}', "slipway:jobs": '{"nope": {}}'}
    with pytest.raises(SettingsError) as caught:
        parse({**config, "slipway:prices": str(file)}, "dev")
    keys = [each.key for each in caught.value.problems]
    assert sorted(keys) == ["slipway:jobs.nope", *["slipway:prices"] * 3]
