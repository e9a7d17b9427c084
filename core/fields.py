"""Types of configuration fields: descriptions name the allowed values, amounts are Kubernetes'."""

import json
import re
from decimal import Decimal
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel

CONFIG = ConfigDict(extra="forbid", strict=True, alias_generator=to_camel, validate_by_name=True)
"""Of a dataclass of settings: in the stack's configuration keys are camelCase."""
_LABEL_KEY = re.compile(
    r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
_OWN_LABELS = ("slipway.dev/", "training.kubeflow.org/", "app.kubernetes.io/managed-by")
_UNITS: dict[str, int] = {
    **{unit: 2 ** (10 * power) for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti"), 1)},
    **{unit: 10 ** (3 * power) for power, unit in enumerate(("k", "M", "G", "T"), 1)},
}


def _text(value: object) -> object:
    """Let a YAML number stand for a quantity: `cpu: 2` means `cpu: "2"`."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number else value


def integer(value: object) -> object:
    """Convert decimal text to an integer: `pulumi config set` writes "2" for 2."""
    return int(value) if isinstance(value, str) and value.isdecimal() else value


def number(value: object) -> object:
    """Convert decimal text to a number: `pulumi config set --path` writes "0.1" for 0.1."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def exact(value: object) -> object:
    """Convert an integer or boolean to text; not 1.1, which may have been written as 1.10."""
    return json.dumps(value) if isinstance(value, int) else value


def also(*types: str) -> dict[str, JsonValue]:
    """Return the schema entry for the other JSON types that a field accepts."""
    return {"alsoWritten": [*types]}


def _key(name: str) -> str:
    if not _LABEL_KEY.fullmatch(name):
        raise ValueError("a name such as team or example.org/team")
    return name


def _label(name: str) -> str:
    if _key(name).startswith(_OWN_LABELS):
        raise ValueError("a name that neither the training operator nor Slipway sets itself")
    return name


Cpu = Annotated[
    str,
    BeforeValidator(_text),
    Field(
        pattern=r"^([1-9]\d*(\.\d{1,3})?|0\.\d{0,2}[1-9]|[1-9]\d*m)$",
        description="cores above 0, such as 2, 0.5 or 500m",
        json_schema_extra=also("number"),
    ),
]
Memory = Annotated[
    str,
    Field(
        pattern=r"^[1-9]\d*(Ki|Mi|Gi|Ti|k|M|G|T)$",
        description="an amount above 0 with its unit, such as 512Mi or 2Gi",
    ),
]
LabelKey = Annotated[str, AfterValidator(_label)]
NodeKey = Annotated[str, AfterValidator(_key)]
"""The key of a node's label or taint: set by the node's creator, which may be Slipway."""
LabelValue = Annotated[
    str,
    BeforeValidator(exact),
    Field(
        pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$",
        description="at most 63 letters, digits, -, _ and ., a letter or digit first and last",
        json_schema_extra=also("integer", "boolean"),
    ),
]
# Different spellings of one directory would count as different directories.
Directory = Annotated[
    str,
    Field(
        pattern=r"^(/([^/:.]|\.[^/:.]|\.\.[^/:])[^/:]*)+$",
        description="an absolute path with no :, . or .. in it and no / at its end, such as "
        "/mnt/data",
    ),
]
Image = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9]([^\s@]*[A-Za-z0-9_.-])?(@sha256:[0-9a-f]{64}|@sha512:[0-9a-f]{128})?$",
        description="an image's reference, such as registry.example/team/train:1, or one with its "
        "whole digest (@sha256:…)",
    ),
]
Count = Annotated[int, Field(ge=0), BeforeValidator(integer)]
Positive = Annotated[int, Field(ge=1), BeforeValidator(integer)]


def cores(text: str) -> Decimal:
    """Return the cores of `2`, `0.5` or `500m`."""
    return Decimal(text[:-1]) / 1000 if text.endswith("m") else Decimal(text)


def size(text: str) -> int:
    """Return the bytes of `512Mi` or `2G`."""
    unit = text.lstrip("0123456789")
    return int(text.removesuffix(unit)) * _UNITS[unit]


def gibibytes(amount: int) -> str:
    """Return an amount of bytes in readable form, rounded down so as not to overstate it."""
    return f"{amount * 10 // _UNITS['Gi'] / 10:g} GiB"
