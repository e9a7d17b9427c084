"""Problems in the user's input: what is wrong, where, and what is allowed instead. Pure."""

import difflib
import itertools
import json
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

Path = tuple[str | int, ...]
"""The keys and indices that lead to a place in a document."""

_LONGEST_QUOTE = 60


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: a setting that is not allowed, a part that does not work."""

    key: str
    """The setting, as `pulumi config set --path` takes it, or the part in one word."""
    text: str
    """What is wrong with it; for a setting the value, and what is allowed instead."""

    def __str__(self) -> str:
        return f"{self.key}: {self.text}"


@dataclass(frozen=True)
class Contradiction:
    """Values that are each allowed but not in combination."""

    path: Path
    """Of the one to change, in the document's spelling."""
    text: str
    """Which values conflict, and what to do."""
    about: frozenset[str]
    """The `dotted` places that the judgement rests on, each with all that is below it."""

    def rests_on(self, place: str) -> bool:
        """Return whether it may be another one when what is at a place changes."""
        pairs = [(f"{place}.", f"{each}.") for each in self.about]
        return any(one.startswith(other) or other.startswith(one) for one, other in pairs)


def contradiction(path: Path, text: str, *others: str) -> Contradiction:
    """Return what is wrong at a path, which rests on that value and on those at `others`."""
    return Contradiction(path, text, frozenset({dotted(path), *others}))


def raised(call: Callable[[], object], *errors: type[Exception]) -> str | None:
    """Return the text of the one of these errors that a call raises; None where it raises none."""
    try:
        call()
    except errors as error:
        return str(error)
    return None


def keys(path: Path) -> Path:
    """Return a place without what is inside of a list: that stands for all that is in it."""
    return tuple(itertools.takewhile(lambda part: isinstance(part, str), path))


def dotted(path: Path) -> str:
    """Return a place in short, as `gpu.minNodes`; that of a list for all that is in it."""
    return ".".join(map(str, keys(path)))


def located(key: str, path: Path) -> str:
    """Return where `path` below `key` is, as `pulumi config set --path` takes it."""
    for part in path:
        if isinstance(part, int):
            key += f"[{part}]"
        elif re.fullmatch(r'[^."\[\]]+', part):
            key += f".{part}" if key else part
        else:
            key += f"[{quote(part)}]"
    return key


def choices(word: str, allowed: Collection[str]) -> str:
    """Return the alternatives to `word`: the likeliest, and unless there are many, all."""
    close = likeliest(word, allowed)
    listed = ", ".join(sorted(allowed)) or "nothing yet"
    if close is None:
        return f"allowed: {listed}"
    return f"did you mean {quote(close)}?{'' if len(listed) > 300 else f' Allowed: {listed}'}"


def likeliest(word: str, allowed: Collection[str]) -> str | None:
    """Return the one of `allowed` that `word` most probably means; None when it is like none."""
    return next(iter(difflib.get_close_matches(word, allowed, n=1)), None)


def meant(word: str, allowed: Collection[str]) -> str:
    """Return the question whether another word was meant, after a blank; empty without one."""
    close = likeliest(word, allowed)
    return f" Did you mean {close}?" if close is not None else ""


def quote(value: object) -> str:
    """Return `value` as it would stand in the stack's file, on one line and not too long."""
    text = json.dumps(value, ensure_ascii=False)
    if len(text) <= _LONGEST_QUOTE:
        return text
    closing = '"' if isinstance(value, str) else ""
    return f"{text[:_LONGEST_QUOTE]}…{closing}"
