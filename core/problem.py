"""Problems in the user's input: what is wrong, and where."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic_core import PydanticCustomError

from core.text import quote

Path = tuple[str | int, ...]
"""The keys and indices that lead to a place in a document."""

CONTRADICTORY = "contradictory"
_PLAIN = re.compile(r'[^."\[\]]+')


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: a setting that is not allowed, a part that does not work.

    Args:
        key: Where: as `pulumi config set --path` takes it, or the part in one word.
        text: What is wrong with it; for a setting the value, and what is allowed instead.
    """

    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.key}: {self.text}"


@dataclass(frozen=True)
class Contradiction:
    """Values that are each allowed but not in combination.

    Args:
        path: Of the one to change, in the document's spelling.
        text: Which values conflict, and what to do.
        about: The places that the judgement rests on, each with all that is below it: as
            `dotted` writes them.
    """

    path: Path
    text: str
    about: frozenset[str]

    def rests_on(self, place: str) -> bool:
        """Return whether it may be another one when what is at a place changes."""
        return any(_within(place, each) or _within(each, place) for each in self.about)


def keys(path: Path) -> Path:
    """Return a place without what is inside of a list: that stands for all that is in it."""
    return tuple(itertools.takewhile(lambda part: isinstance(part, str), path))


def dotted(path: Path) -> str:
    """Return a place in short, as `gpu.minNodes`; that of a list for all that is in it."""
    return ".".join(map(str, keys(path)))


def _within(inner: str, outer: str) -> bool:
    return inner == outer or inner.startswith(f"{outer}.")


def contradictory(found: Sequence[Contradiction]) -> PydanticCustomError:
    """Return the error with which a dataclass's own validator reports all contradictions."""
    text = "; ".join(f"{located('', each.path)}: {each.text}" for each in found)
    # What stands in braces would be taken for the name of a value.
    escaped = text.replace("{", "(").replace("}", ")")
    return PydanticCustomError(CONTRADICTORY, escaped, {"found": list(found)})


def located(key: str, path: Path) -> str:
    """Return where `path` below `key` is, as `pulumi config set --path` takes it."""
    for part in path:
        if isinstance(part, int):
            key += f"[{part}]"
        elif _PLAIN.fullmatch(part):
            key += f".{part}" if key else part
        else:
            key += f"[{quote(part)}]"
    return key
