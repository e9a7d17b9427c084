"""Types for configuration fields, with descriptions of valid values, and Kubernetes quantities."""

import json
import re
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from core.manifests import read

CONFIG = ConfigDict(extra="forbid", strict=True, alias_generator=to_camel, validate_by_name=True)
"""The pydantic configuration for settings dataclasses; keys in the stack's file are camelCase."""
_OWN_LABELS = ("slipway.dev/", "training.kubeflow.org/", "app.kubernetes.io/managed-by")
_UNITS: dict[str, int] = {
    **{unit: 2 ** (10 * power) for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti"), 1)},
    **{unit: 10 ** (3 * power) for power, unit in enumerate(("k", "M", "G", "T"), 1)},
}


def texts(module: str) -> Callable[[str], Any]:
    """Return a function that creates a `Field` from a named entry in the module's YAML file.

    The file is next to the module and has the same stem. An entry contains arguments for
    `pydantic.Field`, such as `pattern` and `description`.
    """
    entries = read(Path(module).with_suffix(".yaml"))
    return lambda name: Field(**entries[name])


def keys(module: str) -> Callable[[str], AfterValidator]:
    """Return a function like `texts`' for a map's keys: a `Field` would describe the map's values.

    An entry contains a `pattern` and a `description`.
    """
    entries = read(Path(module).with_suffix(".yaml"))

    def check(entry: str, key: str) -> str:
        if not re.fullmatch(entries[entry]["pattern"], key):
            raise ValueError(entries[entry]["description"])
        return key

    return lambda name: AfterValidator(partial(check, name))


def word(value: object) -> object:
    """Convert a number to a string: `cpu: 2` means `cpu: "2"`. YAML reads 0.10 as 0.1."""
    return json.dumps(value) if isinstance(value, int | float) else value


def integer(value: object) -> object:
    """Convert a decimal string to an integer: `pulumi config set` writes "2" for 2."""
    return int(value) if isinstance(value, str) and value.isdecimal() else value


def number(value: object) -> object:
    """Convert a decimal string to a number: `pulumi config set --path` writes "0.1" for 0.1."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def exact(value: object) -> object:
    """Convert an integer or boolean to a string, but leave floats alone: YAML reads 1.10 as 1.1."""
    return json.dumps(value) if isinstance(value, int) else value


def _label(name: str) -> str:
    if name.startswith(_OWN_LABELS):
        raise ValueError("a name that neither the training operator nor Slipway sets itself")
    return name


_text = texts(__file__)
_key = keys(__file__)("labelKey")
Cpu = Annotated[str, BeforeValidator(word), _text("cpu")]
Memory = Annotated[str, _text("memory")]
LabelKey = Annotated[str, _key, AfterValidator(_label)]
NodeKey = Annotated[str, _key]
"""The key of a node label or taint. Unlike a `LabelKey`, it may be one that Slipway sets."""
LabelValue = Annotated[str, BeforeValidator(exact), _text("labelValue")]
Directory = Annotated[str, _text("directory")]
Image = Annotated[str, _text("image")]
Count = Annotated[int, Field(ge=0), BeforeValidator(integer)]
Positive = Annotated[int, Field(ge=1), BeforeValidator(integer)]


def cores(text: str) -> Decimal:
    """Convert a CPU quantity, such as `2`, `0.5` or `500m`, to a number of cores."""
    return Decimal(text[:-1]) / 1000 if text.endswith("m") else Decimal(text)


def size(text: str) -> int:
    """Convert a memory quantity, such as `512Mi` or `2G`, to a number of bytes."""
    unit = text.lstrip("0123456789")
    return int(text.removesuffix(unit)) * _UNITS[unit]


def gibibytes(amount: int) -> str:
    """Format a number of bytes in GiB, rounded down to one decimal place."""
    return f"{amount * 10 // _UNITS['Gi'] / 10:g} GiB"
