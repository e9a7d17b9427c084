"""Pulumi's property paths, such as `metadata.annotations["a.b/c"]` or `spec.ports[0].port`."""

import re
from collections.abc import Sequence

Steps = tuple[str | int, ...]

_NEEDS_QUOTES = re.compile(r'[.\[\]"]')
_STEP = re.compile(r'\.?([^.\[\]"]+)|\[(\d+)\]|\["((?:[^"\\]|\\.)*)"\]|\[\*\]')


def render(path: Sequence[str | int]) -> str:
    """Return `path` in Pulumi's syntax."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _NEEDS_QUOTES.search(step):
            escaped = step.replace('"', '\\"')
            text += f'["{escaped}"]'
        else:
            text += f".{step}" if text else step
    return text


def parse(text: str) -> Steps:
    """Read a path; `[*]` is left out, so that it names the list as a whole.

    Raises:
        ValueError: it is none.
    """
    steps: list[str | int] = []
    position = 0
    while position < len(text):
        found = _STEP.match(text, position)
        if found is None:
            raise ValueError(f"{text!r} is no property path; an example is spec.ports[0].port")
        name, index, quoted = found.groups()
        if found.group() == "[*]":
            return tuple(steps)
        if index is not None:
            steps.append(int(index))
        else:
            steps.append(name if quoted is None else quoted.replace('\\"', '"'))
        position = found.end()
    return tuple(steps)
