"""Price tables: the hourly price of a node, by size, and its source."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Annotated, cast

import yaml
from pydantic import Field
from pydantic.dataclasses import dataclass

from clusters.nodes import NodePool
from core.fields import CONFIG
from core.paths import CHECKOUT, project_dir
from core.problem import Contradiction, Problem, choices, contradiction, quote
from core.validation import Consistent, check

DEFAULT = Path(__file__).with_name("azure-prices.yaml")
KEY = "slipway:prices"
_AMOUNT = "a node's hourly price, a number above 0"
Amount = Annotated[Decimal, Field(gt=0, allow_inf_nan=False, description=_AMOUNT)]
Name = Annotated[str, Field(pattern=r"^\S+$", description="a name without spaces")]
Url = Annotated[
    str, Field(pattern=r"^https?://\S+$", description="a URL that begins with https://")
]
Text = Annotated[str, Field(min_length=1, description="text")]


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Source:
    """A source of prices: the publisher, its page, and the date of the prices."""

    publisher: Text
    url: Url
    date: Annotated[date, Field(description="a day such as 2026-01-31")]


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Tariff:
    """A provider's hourly prices in one region, by node size; `spot` contains spot prices."""

    source: Name
    provider: Name
    region: Name
    hourly: dict[Name, Amount] = Field(default_factory=dict)
    spot: dict[Name, Amount] = Field(default_factory=dict)


@dataclass(frozen=True)
class Price:
    """The hourly price of one node, in the table's currency."""

    amount: Amount
    source: Source | None  # None if the amount is a limit that the stack sets
    capped: str = ""  # the reason if a node may cost less, else empty


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class PriceTable(Consistent):
    """Hourly node prices; `not_included` lists costs that these prices do not cover."""

    currency: Annotated[str, Field(pattern="^[A-Z]{3}$", description="three letters such as EUR")]
    sources: Annotated[dict[Name, Source], Field(min_length=1)]
    prices: tuple[Tariff, ...]
    not_included: tuple[Text, ...] = ()

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield each reference to a missing source, and each price that appears twice."""
        indices: dict[tuple[str, ...], int] = {}
        for index, tariff in enumerate(self.prices):
            if tariff.source not in self.sources:
                names = choices(tariff.source, self.sources.keys())
                text = f"{quote(tariff.source)} is not one of the sources; {names}"
                yield contradiction(("prices", index, "source"), text, "sources")
            for kind, amounts in (("hourly", tariff.hourly), ("spot", tariff.spot)):
                for size in amounts:
                    first = indices.setdefault((kind, tariff.provider, tariff.region, size), index)
                    if first != index:
                        text = f"already has a price in prices[{first}]; remove one of the two"
                        yield contradiction(("prices", index, kind, size), text, "sources")

    def price(self, provider: str, region: str, size: str, *, spot: bool = False) -> Price | None:
        """Return the price of a node, or None if it is not in the table."""
        for tariff in self.prices:
            amounts = tariff.spot if spot else tariff.hourly
            if (tariff.provider, tariff.region) == (provider, region) and size in amounts:
                return Price(amounts[size], self.sources[tariff.source])
        return None

    def price_in(self, pool: NodePool) -> Price | None:
        """Return the price of a node in a pool, or None if it is unknown.

        If there is no price for spot nodes, this is an upper limit, and `capped` explains it.
        """
        node = (pool.provider, pool.region, pool.size)
        price = self.price(*node, spot=pool.spot)
        if price is not None or not pool.spot:
            return price
        # https://learn.microsoft.com/azure/virtual-machines/linux/spot-template
        if (price := self.price(*node)) is not None:
            price = replace(price, capped="which never cost more than regular nodes")
        # Azure expects the limit in dollars, whatever the billing currency.
        limit = pool.dollars if self.currency == "USD" else None
        if limit is None or (price is not None and price.amount < limit):
            return price
        source = None if price is None else price.source
        return Price(limit, source, "which are evicted above maxPrice")


def read(path: object) -> PriceTable | list[Problem]:
    """Return the price table in a YAML file, or its problems. `path` is relative to the project."""
    if not isinstance(path, str) or not path:
        text = f"{quote(path)} is not allowed; it must be the path of a price table"
        return [Problem(KEY, text)]
    try:
        text = (project_dir() / Path(path).expanduser()).read_text(encoding="utf-8")
        document = yaml.safe_load(text)
    except (OSError, RuntimeError, UnicodeError, yaml.YAMLError) as error:
        how = " as YAML" if isinstance(error, yaml.YAMLError) else ""
        return [Problem(KEY, f"{quote(path)} can't be read{how}: {' '.join(str(error).split())}")]
    if not isinstance(document, dict):
        text = f"{quote(path)} is not a map; it must contain currency, sources and prices, as in "
        return [Problem(KEY, f"{text}{DEFAULT.relative_to(CHECKOUT)}")]
    # Via JSON, which turns dates into strings.
    table = check(PriceTable, json.loads(json.dumps(document, default=str, skipkeys=True)), "")
    if isinstance(table, PriceTable):
        return table
    return [Problem(KEY, f"in {quote(path)}, {each}") for each in table]


@cache
def default() -> PriceTable:
    """Return Slipway's price table, for stacks that have none of their own."""
    return cast("PriceTable", read(str(DEFAULT)))
