"""The types of a job's fields, with the descriptions shown when a value is invalid."""

import json
import re
from enum import Enum
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue

from core.fields import exact, integer, keys, number, texts, word
from core.problem import meant
from images.build.releases import RELEASES
from jobs.model.names import DATA_CACHE, OWN_VOLUMES

T = TypeVar("T")


class Effect(Enum):
    """The effect that changing a job's field has on an existing run."""

    TRAINS = "trains again"
    """The change can alter the result. The values here match the table in docs/jobs.md."""
    CONTENT = "if its content differs"
    """The field names a file or an image, and has an effect only if the content differs."""
    IN_PLACE = "in place"
    """The PyTorchJob and its pods are patched; nothing is trained."""
    WAITS = "for the wait"
    """Only the process that waits for the run uses the field; nothing is trained again."""
    JUDGES = "judged again"
    """Only the gate, or the check before anything is created, uses the field, not the run."""


Trains = Annotated[T, Effect.TRAINS]
Content = Annotated[T, Effect.CONTENT]
InPlace = Annotated[T, Effect.IN_PLACE]
Waits = Annotated[T, Effect.WAITS]
Judges = Annotated[T, Effect.JUDGES]

TAKEN = {
    *("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "PYTHONUNBUFFERED"),
    *("LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"),
}
"""Variables that the training operator and Slipway set, in addition to PET_… and SLIPWAY_…."""
_DURATION = re.compile(
    r"(?:(\d+) ?d(?:ays?)?)? ?(?:(\d+) ?h(?:(?:ou)?rs?)?)? ?"
    r"(?:(\d+) ?m(?:in(?:ute)?s?)?)? ?(?:(\d+) ?s(?:ec(?:ond)?s?)?)?"
)
_DURATIONS = "a duration such as 90s, 90 min, 1h30m or 12 hours"
_INTERVAL = f"a number of steps such as 500 steps, or {_DURATIONS}"
_URL = "a URL that fsspec supports, such as file:///results, abfs://container/folder or s3://bucket/folder"
_PATTERN = "a regular expression with the number in a group, such as 'accuracy=([0-9.]+)'"
_ARTIFACT = "the path of a file below the other job's SLIPWAY_OUTPUT_DIR, such as model.pt"


def _seconds(value: object) -> object:
    """Convert a duration such as 90s, 90 min, 1h30m or 12 hours to seconds."""
    match = _DURATION.fullmatch(value) if isinstance(value, str) and value else None
    if match is None:
        return number(integer(value))
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((24 * days + hours) * 60 + minutes) * 60 + seconds


def _interval(text: str) -> str:
    """Return an interval in the format that pods expect: `500 steps`, or `600 s`."""
    if steps := re.fullmatch(r"([1-9]\d*) ?steps?", text):
        return f"{steps[1]} steps"
    seconds = _seconds(text)
    if not isinstance(seconds, int) or seconds < 1:
        raise ValueError(_INTERVAL)
    return f"{seconds} s"


def _variable(name: str) -> str:
    if name in TAKEN or name.startswith(("PET_", "SLIPWAY_")):
        raise ValueError("a name that neither the training operator nor Slipway sets")
    return name


def _artifact(path: str) -> str:
    if "" in path.split("/") or {".", ".."} & set(path.split("/")):
        raise ValueError(_ARTIFACT)
    return path


def _url(url: str) -> str:
    try:
        urlsplit(url)
    except ValueError:
        raise ValueError(_URL) from None
    return url


def torches(name: object) -> str:
    """Describe the valid torch versions, and suggest the one that was probably meant."""
    listed = ", ".join(map(json.dumps, RELEASES))
    return f"one of {listed}, in quotes: YAML reads 2.10 as 2.1.{meant(str(name), RELEASES)}"


def _torch(value: object) -> object:
    """Check a torch version, and convert it to a string: YAML reads 2.14 as a number."""
    name = str(value) if isinstance(value, float) else value
    if not isinstance(name, str) or name not in RELEASES:
        raise ValueError(torches(name))
    return name


def _pattern(text: str) -> str:
    try:
        groups = re.compile(text).groups
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{_PATTERN}; this one is invalid: {error}") from None
    if groups == 0:
        raise ValueError(f"{_PATTERN}; this one has no group")
    return text


def _listed(value: object) -> object:
    """Convert a single string to a tuple with one item, and a list to a tuple."""
    items = [value] if isinstance(value, str) else value
    return tuple(items) if isinstance(items, list) else items


def _volume(name: str) -> str:
    if name in {*OWN_VOLUMES, DATA_CACHE}:
        raise ValueError(f"a name that Slipway does not use itself ({', '.join(OWN_VOLUMES)})")
    return name


def _time(amount: str, **limits: Any) -> Any:
    """Return a `Field` for an `amount` of seconds that can also be written as a duration."""
    return Field(description=f"{amount}, or {_DURATIONS}", json_schema_extra=_ALSO_TEXT, **limits)


_text, _key = texts(__file__), keys(__file__)
Name = Annotated[str, _text("name")]
_ALSO_TEXT: dict[str, JsonValue] = {"alsoWritten": ["string"]}
"""The schema entry for a field that can also be written as a string."""
FormerNames = Annotated[
    tuple[Name, ...], BeforeValidator(_listed), Field(json_schema_extra=_ALSO_TEXT)
]
Variable = Annotated[str, _key("variable"), AfterValidator(_variable)]
Value = Annotated[str, BeforeValidator(exact), _text("value")]
Word = Annotated[str, BeforeValidator(word), _text("word")]
Torch = Annotated[str, BeforeValidator(_torch), Field(json_schema_extra={"enum": [*RELEASES]})]
ArtifactPath = Annotated[str, Field(description=_ARTIFACT), AfterValidator(_artifact)]
PathPattern = Annotated[str, _text("pathPattern")]
InputName = Annotated[str, _key("inputName")]
VolumeName = Annotated[str, _key("volumeName"), AfterValidator(_volume)]
ObjectName = Annotated[str, _text("objectName")]
ConfigKey = Annotated[str, _text("configKey")]
FilePath = Annotated[str, _text("filePath")]
InnerPath = Annotated[str, _text("innerPath")]
Url = Annotated[
    str, Field(pattern=r"^[a-z][a-z0-9+.-]*://\S+$", description=_URL), AfterValidator(_url)
]
Sha256 = Annotated[str, _text("sha256")]
Goal = Annotated[str, _text("goal")]
Accuracy = Annotated[float, Field(ge=0, le=1), BeforeValidator(number)]
AboveZero = Annotated[float, Field(gt=0, allow_inf_nan=False), BeforeValidator(number)]
Momentum = Annotated[float, Field(ge=0, lt=1), BeforeValidator(number)]
Percent = Annotated[int, Field(ge=1, le=100), BeforeValidator(integer)]
Checkpoints = Annotated[int, Field(ge=1, le=100), BeforeValidator(integer)]
Figure = Annotated[float, Field(allow_inf_nan=False), BeforeValidator(number)]
MetricName = Annotated[str, _key("metricName")]
Pattern = Annotated[str, Field(description=_PATTERN), AfterValidator(_pattern)]
Seconds = Annotated[
    float,
    _time("a number of seconds above 0", gt=0, allow_inf_nan=False),
    BeforeValidator(_seconds),
]
WholeSeconds = Annotated[
    int, _time("a whole number of seconds, at least 1", ge=1), BeforeValidator(_seconds)
]
Retriable = Literal["lostNode", "ownFailure"]
Interval = Annotated[str, Field(description=_INTERVAL), AfterValidator(_interval)]
Replicas = Annotated[int, Field(ge=1, le=999), BeforeValidator(integer)]
Workers = Annotated[int, Field(ge=0, le=999), BeforeValidator(integer)]
