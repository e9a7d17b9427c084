"""What Pulumi has changed of a stack's file before the program sees it: some of YAML's scalars.

It reads `010` as 8, `3.10` as 3.1, and a date as a time, of which only the file still tells.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from core import problem
from core.problem import Problem, located, quote

_TEXTS = frozenset({"annotations", "args", "command", "env", "labels", "nodeSelector"})
"""Keys of a job whose values are text, of which each character counts."""


def altered(config: Mapping[str, Any], file: Path) -> Iterator[Problem]:
    """Yield each value of the decoded configuration that is another one in the stack's file."""
    if not file.is_file():
        return
    with file.open("rb") as stream:
        document = yaml.compose(stream, Loader=yaml.CSafeLoader)
    yield from _altered(document, {"config": config}, ())


def _altered(node: yaml.Node | None, value: object, place: problem.Path) -> Iterator[Problem]:
    if isinstance(node, yaml.MappingNode) and isinstance(value, Mapping):
        for key, inside in node.value:
            yield from _altered(inside, value.get(key.value), (*place, key.value))
    elif isinstance(node, yaml.SequenceNode) and isinstance(value, list):
        for index, inside in enumerate(node.value[: len(value)]):
            yield from _altered(inside, value[index], (*place, index))
    elif isinstance(node, yaml.ScalarNode) and not node.style:
        read = value if isinstance(value, str) else json.dumps(value)
        if _differs(node.value, value, is_text=not _TEXTS.isdisjoint(place)):
            _, key, *below = place
            text = f"{node.value} is read as {quote(read)}; put it in quotes: {quote(node.value)}"
            yield Problem(located(str(key), tuple(below)), text)


def _differs(text: str, value: object, *, is_text: bool) -> bool:
    """Return whether a value that was read from `text` is another one than was written.

    What no such text is read as comes from elsewhere, such as from the command line.
    """
    if isinstance(value, bool):
        return is_text and text != text.lower() == json.dumps(value)
    if isinstance(value, str):  # of a date
        return text != value and text[:4] == value[:4] and text[:4].isdigit()
    if not isinstance(value, int | float):
        return False
    numbers = []
    for reading in (float, partial(int, base=0), partial(int, base=8)):
        with suppress(ValueError):
            numbers.append(float(reading(text)))
    is_exact = text == json.dumps(value) if is_text else numbers[:1] == [float(value)]
    return float(value) in numbers and not is_exact
