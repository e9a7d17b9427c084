"""Find values that Pulumi alters when it reads a stack's file, such as `010`, which becomes 8."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from core import problem
from core.problem import Problem, located, quote

_TEXTS = frozenset({"annotations", "args", "command", "env", "labels", "nodeSelector"})
"""Job keys whose values are strings."""


def altered(config: Mapping[str, Any], file: Path) -> Iterator[Problem]:
    """Yield a problem for each value in `config` that Pulumi altered when it read `file`."""
    if file.is_file():
        document = yaml.compose(file.read_bytes(), Loader=yaml.CSafeLoader)
        yield from _altered(document, {"config": config}, ())


def _altered(node: yaml.Node | None, value: Any, place: problem.Path) -> Iterator[Problem]:
    parts: Iterable[tuple[str | int, yaml.Node]] = ()
    if isinstance(node, yaml.MappingNode) and isinstance(value, Mapping):
        parts = ((key.value, inside) for key, inside in node.value if key.value in value)
    elif isinstance(node, yaml.SequenceNode) and isinstance(value, list):
        parts = enumerate(node.value[: len(value)])
    elif isinstance(node, yaml.ScalarNode) and not node.style:
        text, read = node.value, value if isinstance(value, str) else json.dumps(value)
        if read != text and _is_of(text, value, is_text=not _TEXTS.isdisjoint(place)):
            advice = f"{text} is read as {quote(read)}; put it in quotes: {quote(text)}"
            yield Problem(located(str(place[1]), place[2:]), advice)
    for part, inside in parts:
        yield from _altered(inside, value[part], (*place, part))


def _is_of(text: str, value: object, *, is_text: bool) -> bool:
    """Return whether Pulumi read `text` as `value`, and the user meant something else.

    `is_text` is true if the setting is a string.
    """
    if isinstance(value, str):  # read from a date
        return text[:4] == value[:4] and text[:4].isdigit()
    if isinstance(value, bool) or not isinstance(value, int | float):
        return is_text and text.lower() == json.dumps(value)
    numbers = []
    for reading in (float, lambda text: int(text, 0), lambda text: int(text, 8)):
        with suppress(ValueError):
            numbers.append(float(reading(text)))
    return float(value) in numbers and (is_text or numbers[0] != float(value))
