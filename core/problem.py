"""Problems in the user's input: the location, the error, and the valid values. Pure."""

import difflib
import itertools
import json
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

Path = tuple[str | int, ...]
"""The keys and indices that lead to a location in a document."""

_LONGEST_QUOTE = 60


@dataclass(frozen=True)
class Problem:
    """One problem: an invalid setting, or a component that does not work."""

    key: str
    """The setting, in `pulumi config set --path` syntax, or the component's name, in one word."""
    text: str
    """The problem; for a setting, its value and the valid values."""

    def __str__(self) -> str:
        return f"{self.key}: {self.text}"


@dataclass(frozen=True)
class Contradiction:
    """Values that are each allowed but not in combination."""

    path: Path
    """The path of the value to change."""
    text: str
    """The conflicting values, and what to do."""
    about: frozenset[str]
    """The `dotted` locations of the conflicting values, each including everything below it."""

    def rests_on(self, place: str) -> bool:
        """Return whether a change at a location may resolve or alter the contradiction."""
        pairs = [(f"{place}.", f"{each}.") for each in self.about]
        return any(one.startswith(other) or other.startswith(one) for one, other in pairs)


def contradiction(path: Path, text: str, *others: str) -> Contradiction:
    """Return a contradiction between the value at `path` and those at the locations `others`."""
    return Contradiction(path, text, frozenset({dotted(path), *others}))


def raised(call: Callable[[], object], *errors: type[Exception]) -> str | None:
    """Return the message if `call` raises one of `errors`, or None if it succeeds."""
    try:
        call()
    except errors as error:
        return str(error)
    return None


def keys(path: Path) -> Path:
    """Return a path up to its first index, so that a list stands for all of its items."""
    return tuple(itertools.takewhile(lambda part: isinstance(part, str), path))


def dotted(path: Path) -> str:
    """Return a path as text, such as `gpu.minNodes`; for a list item, the path of the list."""
    return ".".join(map(str, keys(path)))


def located(key: str, path: Path) -> str:
    """Return the location of `path` below `key`, in `pulumi config set --path` syntax."""
    for part in path:
        if isinstance(part, int):
            key += f"[{part}]"
        elif re.fullmatch(r'[^."\[\]]+', part):
            key += f".{part}" if key else part
        else:
            key += f"[{quote(part)}]"
    return key


def choices(word: str, allowed: Collection[str]) -> str:
    """Return a hint with the closest match to `word`, and all allowed words if they are few."""
    close = likeliest(word, allowed)
    listed = ", ".join(sorted(allowed)) or "nothing yet"
    if close is None:
        return f"allowed: {listed}"
    return f"did you mean {quote(close)}?{'' if len(listed) > 300 else f' Allowed: {listed}'}"


def likeliest(word: str, allowed: Collection[str]) -> str | None:
    """Return the closest match to `word` in `allowed`, or None if none is similar."""
    return next(iter(difflib.get_close_matches(word, allowed, n=1)), None)


def meant(word: str, allowed: Collection[str]) -> str:
    """Return " Did you mean …?" with the closest match to `word`, or "" if none is similar."""
    close = likeliest(word, allowed)
    return f" Did you mean {close}?" if close is not None else ""


def quote(value: object) -> str:
    """Return `value` as it would appear in the stack's file, on one line, shortened if long."""
    text = json.dumps(value, ensure_ascii=False)
    if len(text) <= _LONGEST_QUOTE:
        return text
    closing = '"' if isinstance(value, str) else ""
    return f"{text[:_LONGEST_QUOTE]}…{closing}"
