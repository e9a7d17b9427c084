"""A price table: what a node of a size costs by the hour, and who says so."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Annotated, Self

from pydantic import ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass

from core.problem import Contradiction, contradictory
from core.text import choices, quote

CONFIG = ConfigDict(extra="forbid", strict=True, alias_generator=to_camel, validate_by_name=True)

Amount = Annotated[
    Decimal,
    Field(gt=0, allow_inf_nan=False, description="what a node costs by the hour, a number above 0"),
]
Name = Annotated[str, Field(pattern=r"^\S+$", description="a name with no blanks in it")]
Text = Annotated[str, Field(min_length=1, description="text")]


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Source:
    """Where prices are from.

    Args:
        publisher: Who says so.
        url: Where.
        date: When it was so.
    """

    publisher: Text
    url: Annotated[
        str,
        Field(pattern=r"^https?://\S+$", description="an address that begins with https://"),
    ]
    date: Annotated[date, Field(description="a day such as 2026-01-31")]


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Tariff:
    """Prices of one provider in one region, all from one source.

    Args:
        source: Its name in the table's `sources`.
        provider: Who is paid, such as `azure`.
        region: Where the nodes are, as the provider names it.
        hourly: By size, as the provider names it.
        spot: The same of nodes that may be taken back at any time.
    """

    source: Name
    provider: Name
    region: Name
    hourly: dict[Name, Amount] = Field(default_factory=dict)
    spot: dict[Name, Amount] = Field(default_factory=dict)


@dataclass(frozen=True)
class Price:
    """What one node costs by the hour.

    Args:
        amount: In the table's currency.
        source: Who says so.
    """

    amount: Amount
    source: Source


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class PriceTable:
    """What nodes cost by the hour.

    Args:
        currency: Of every price in it.
        sources: Where they are from, by a name that the prices call it by.
        prices: By provider and region.
        not_included: What else is paid for, and is in none of them.

    Raises:
        pydantic.ValidationError: with everything that is wrong with it.
    """

    currency: Annotated[str, Field(pattern="^[A-Z]{3}$", description="three letters such as EUR")]
    sources: Annotated[dict[Name, Source], Field(min_length=1)]
    prices: tuple[Tariff, ...]
    not_included: tuple[Text, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if found := [*_unknown(self), *_doubled(self)]:
            raise contradictory(found)
        return self

    def price(self, provider: str, region: str, size: str, *, spot: bool = False) -> Price | None:
        """Return what a node costs; None where the table does not say. Case makes no difference."""
        for tariff in self.prices:
            if _same(tariff.provider, provider) and _same(tariff.region, region):
                for name, amount in (tariff.spot if spot else tariff.hourly).items():
                    if _same(name, size):
                        return Price(amount, self.sources[tariff.source])
        return None


def _unknown(table: PriceTable) -> Iterator[Contradiction]:
    for index, tariff in enumerate(table.prices):
        if tariff.source not in table.sources:
            yield Contradiction(
                ("prices", index, "source"),
                f"{quote(tariff.source)} is not one of the sources; "
                f"{choices(tariff.source, table.sources.keys())}",
                frozenset({"prices", "sources"}),
            )


def _doubled(table: PriceTable) -> Iterator[Contradiction]:
    """Yield each price that an earlier one makes void: nobody could tell which of them holds."""
    seen: dict[tuple[str, ...], int] = {}
    for index, tariff in enumerate(table.prices):
        for kind, amounts in (("hourly", tariff.hourly), ("spot", tariff.spot)):
            for size in amounts:
                named = (tariff.provider, tariff.region, kind, size)
                first = seen.setdefault(tuple(each.casefold() for each in named), index)
                if first != index:
                    yield Contradiction(
                        ("prices", index, kind, size),
                        f"has a price in prices[{first}] already; leave one of them out",
                        frozenset({"prices"}),
                    )


def _same(one: str, other: str) -> bool:
    return one.casefold() == other.casefold()
