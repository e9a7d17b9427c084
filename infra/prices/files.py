"""Reads price tables: the person's own, and the repository's."""

from collections.abc import Hashable, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from core.paths import CHECKOUT
from core.problem import Problem
from core.text import quote
from core.validation import check
from infra.prices.table import PriceTable

OURS = Path(__file__).with_name("azure.yaml")
KEY = "slipway:prices"


class _Loader(yaml.SafeLoader):
    """Refuses a key that is there twice: YAML would take the last, and a price be lost."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                text = f"{key.value} is there twice; leave one of them out"
                raise yaml.constructor.ConstructorError(None, None, text, key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


def read(path: str, checkout: Path = CHECKOUT) -> PriceTable | list[Problem]:
    """Return the table in a file, or everything that is wrong with it.

    Args:
        path: Relative to the checkout, or absolute; `~` is the home directory.
        checkout: What the path is relative to.
    """
    try:
        with (checkout / Path(path).expanduser()).open(encoding="utf-8") as file:
            document = yaml.load(file, Loader=_Loader)  # noqa: S506 (it is a safe one)
    except (OSError, RuntimeError, UnicodeError) as error:
        return [Problem(KEY, f"{quote(path)} can't be read: {error}")]
    except yaml.YAMLError as error:
        return [
            Problem(KEY, f"{quote(path)} can't be read as YAML: {' '.join(str(error).split())}")
        ]
    if not isinstance(document, dict):
        return [
            Problem(
                KEY,
                f"{quote(path)} holds no map; it takes currency, sources and prices, as "
                f"{OURS.relative_to(CHECKOUT)} has them",
            )
        ]
    table = check(PriceTable, _plain(document), "")
    if isinstance(table, PriceTable):
        return table
    return [Problem(KEY, f"in {quote(path)}, {each}") for each in table]


def ours() -> PriceTable:
    """Return the repository's own table.

    Raises:
        ValueError: with what is wrong with it.
    """
    table = read(str(OURS))
    if isinstance(table, PriceTable):
        return table
    raise ValueError("; ".join(map(str, table)))


def _plain(value: Any) -> Any:
    """Return a document as JSON has it: YAML knows days, and keys that are no text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.isoformat() if isinstance(value, date) else value
