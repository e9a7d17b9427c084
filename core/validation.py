"""Validate a document against a dataclass, and describe problems using its JSON schema."""

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Self, TypeVar

from pydantic import TypeAdapter, ValidationError, model_validator
from pydantic.dataclasses import dataclass
from pydantic_core import ErrorDetails, PydanticCustomError

from core.fields import CONFIG
from core.problem import Contradiction, Path, Problem, choices, dotted, keys, located, quote
from core.schema import Schema

T = TypeVar("T")

_CONTRADICTORY = "contradictory"
_MISSING = frozenset({"missing", "missing_argument"})


def check(
    kind: type[T],
    document: Mapping[str, Any],
    key: str,
    *,
    base: Mapping[str, Any] | None = None,
    presumed: Callable[[], Mapping[str, Any]] = dict,
) -> T | list[Problem]:
    """Return `document` converted to a `kind`, or all problems with the document.

    Args:
        kind: A dataclass whose configuration is `core.fields.CONFIG`.
        document: The user's input, as decoded JSON.
        key: The document's key in the configuration.
        base: Values for the keys that `document` leaves out; maps are merged.
        presumed: Returns values to substitute for invalid ones while checking the others.
    """
    adapter: TypeAdapter[T]
    adapter, schema = _shape(kind)  # type: ignore[arg-type]  # every class can be hashed
    defaults = {name: value for name, value in (base or {}).items() if name in schema.names}
    values = _merged(defaults, document)
    checked = _validated(adapter, values)
    if not isinstance(checked, list):
        return checked
    placed = _problems(checked, values, schema, key)
    # Contradictions are reported together with invalid values, as if those were valid.
    wrong = {path for path in placed if path}
    again, changed = _as_if_right(adapter, values, wrong, _merged(presumed(), defaults))
    judged = (each for each in [*checked, *again] if each["type"] == _CONTRADICTORY)
    every: Iterator[Contradiction] = (one for each in judged for one in each["ctx"]["found"])
    contradictions = [
        Problem(located(key, each.path), each.text)
        for each in dict.fromkeys(every)
        if not any(map(each.rests_on, changed))
    ]
    return [*placed.values(), *contradictions]


@cache
def _shape(kind: type[Any]) -> tuple[TypeAdapter[Any], Schema]:
    # Cached for all jobs: building the adapter takes longer than validating a job.
    adapter = TypeAdapter(kind)
    document = adapter.json_schema()
    return adapter, Schema(document, document.get("$defs", {}))


def _validated(adapter: TypeAdapter[T], values: Mapping[str, Any]) -> T | list[ErrorDetails]:
    try:
        # Strict validation of JSON converts only lists to tuples.
        return adapter.validate_json(json.dumps(values), strict=True, by_alias=True, by_name=False)
    except ValidationError as error:
        return error.errors()


def _as_if_right(
    adapter: TypeAdapter[Any],
    values: Mapping[str, Any],
    wrong: set[Path],
    instead: Mapping[str, Any],
) -> tuple[list[ErrorDetails], set[str]]:
    """Return the errors left once invalid values are replaced, and the locations replaced."""
    places = set(map(keys, wrong))
    errors = _validated(adapter, _mended(values, places, instead))
    if isinstance(errors, list) and (
        lacking := {_path(each, values)[:1] for each in errors} - {()}
    ):
        # A nested required value has no default.
        places |= lacking
        errors = _validated(adapter, _mended(values, places, instead))
    return errors if isinstance(errors, list) else [], set(map(dotted, places))


def _mended(
    values: Mapping[str, Any], places: set[Path], instead: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a copy in which `instead` replaces the invalid values at `places`, or without them."""
    repaired = copy.deepcopy(dict(values))
    for *above, last in sorted(places, key=len):
        inside: Any = repaired
        substitute: Any = instead
        for part in above:
            inside = inside.get(part) if isinstance(inside, dict) else None
            substitute = substitute.get(part) if isinstance(substitute, Mapping) else None
        if not isinstance(inside, dict):
            continue
        inside.pop(last, None)
        if isinstance(substitute, Mapping) and last in substitute:
            inside[last] = substitute[last]
    return repaired


def _merged(base: Any, written: Any) -> Any:
    """Return `base` overridden by `written`; maps are merged recursively."""
    if not isinstance(base, Mapping) or not isinstance(written, Mapping):
        return written
    both = {name: _merged(base[name], written[name]) for name in base.keys() & written.keys()}
    return {**base, **written, **both}


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Consistent:
    """Settings whose combination is checked once each value is valid on its own."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if conflicts := [*self.contradictions()]:
            raise contradictory(conflicts)
        return self

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield combinations of values that are not allowed, although each value is valid."""
        yield from ()


def contradictory(conflicts: Sequence[Contradiction]) -> PydanticCustomError:
    """Return the error that a dataclass's validator raises to report all contradictions."""
    text = "; ".join(f"{located('', each.path)}: {each.text}" for each in conflicts)
    # Pydantic would replace words in braces with values.
    escaped = text.replace("{", "(").replace("}", ")")
    return PydanticCustomError(_CONTRADICTORY, escaped, {"found": list(conflicts)})


def _problems(
    errors: Sequence[ErrorDetails], document: Mapping[str, Any], schema: Schema, key: str
) -> dict[Path, Problem]:
    """Return one problem per location with errors, even if several types are allowed there."""
    placed = [(_path(each, document), each) for each in errors if each["type"] != _CONTRADICTORY]
    paths = {path for path, _ in placed}
    problems: dict[Path, Problem] = {}
    for path, detail in placed:
        # If a map or text is allowed, the problem inside the map is more specific.
        deeper = any(other[: len(path)] == path and len(other) > len(path) for other in paths)
        if not deeper or detail["loc"][-1] == "[key]":
            problems.setdefault(path, _problem(path, detail, schema, key))
    return problems


def _path(detail: ErrorDetails, document: Any) -> Path:
    """Return an error's location, without the names of union members that pydantic adds."""
    path: list[str | int] = []
    for part in detail["loc"]:
        inside = (isinstance(document, Mapping) and part in document) or isinstance(part, int)
        if inside:
            path.append(part)
            document = document[part]
    return (*path, *detail["loc"][-1:]) if detail["type"] in _MISSING else tuple(path)


def _problem(path: Path, detail: ErrorDetails, schema: Schema, key: str) -> Problem:
    where = located(key, path)
    reason = str(detail["ctx"]["error"]) if detail["type"] == "value_error" else ""
    if not path:
        return Problem(where, reason or detail["msg"])
    for part in path[:-1]:
        schema = schema.below(part)
    *_, last = path
    if detail["type"] == "unexpected_keyword_argument":
        return Problem(where, f"there is no such key; {choices(str(last), schema.names)}")
    schema = schema.below(last)
    takes = reason or schema.takes() or detail["msg"]
    if detail["type"] in _MISSING:
        return Problem(where, f"is missing; set it to {takes}")
    shown = "its value" if "writeOnly" in schema.node else quote(detail["input"])
    return Problem(where, f"{shown} is not allowed; it must be {takes}")
