"""Read as much of a document as fits a dataclass's fields, and list the rest. Pure."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from core.problem import Path, located, quote
from core.process import utf8

_hints = cache(get_type_hints)


def fitting(kind: Any, document: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values that fit a dataclass's fields, and the other values keyed by location."""
    lost: dict[str, str] = {}
    return _fields(kind, document, (), lost), lost


def _fields(
    kind: Any, document: Mapping[str, Any], place: Path, lost: dict[str, str]
) -> dict[str, Any]:
    fitted = {
        name: _fit(hint, document.get(name), (*place, name), lost)
        for name, hint in _hints(kind).items()
    }
    return {name: value for name, value in fitted.items() if value is not None}


def _fit(kind: Any, value: Any, place: Path, lost: dict[str, str]) -> Any:
    """Return `value` converted to `kind`; if it does not fit, add it to `lost` and return None."""
    if get_origin(kind) in {Union, UnionType}:  # always one type and None
        kind = get_args(kind)[0]
    if kind is Any:
        any_of: dict[type, Any] = {dict: Mapping[str, Any], list: Sequence[Any]}
        kind = any_of.get(type(value), type(value))
    origin, inner = get_origin(kind) or kind, get_args(kind)
    is_one = value in inner if origin is Literal else kind is bool is type(value)
    is_number = type(value) in {int, float} and abs(value) <= sys.float_info.max
    if is_dataclass(kind) and isinstance(value, Mapping):
        value = kind(**_fields(kind, value, place, lost))  # type: ignore[operator]  # a class
    elif origin is Mapping and isinstance(value, Mapping):
        pairs = {utf8(key): _fit(inner[1], value[key], (*place, key), lost) for key in value}
        value = {key: each for key, each in pairs.items() if each is not None}
    elif origin is Sequence and isinstance(value, list | tuple):
        items = (_fit(inner[0], each, place, lost) for each in value)
        value = [each for each in items if each is not None]
    elif kind is str and isinstance(value, str):
        value = utf8(value)
    elif kind is int and is_number and value == int(value):
        value = int(value)
    elif value is not None and not (is_number if kind is float else is_one):
        lost |= {utf8(located("", place)): _shown(value)} if len(lost) < 100 else {}
        value = None
    return value


def _shown(value: object) -> str:
    try:
        return utf8(quote(value))
    except (RecursionError, TypeError, ValueError):  # for example an integer with 5,000 digits
        return type(value).__name__
