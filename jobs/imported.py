"""Convert a job of another kind to an entry in `slipway:jobs`: `make import`.

Comparing the job with the manifest built from its entry shows which values the entry can't express.
"""

import copy
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from core import manifests
from core.problem import Path as Place
from core.problem import located, quote
from jobs.config import CATALOG, KEYS, declare
from jobs.model.fields import TAKEN
from jobs.model.job import TrainingJob
from jobs.model.manifest import manifest
from jobs.model.names import CONTAINER, OWN_VOLUMES, literal
from jobs.model.submission import Submission

_TABLES = manifests.read(Path(__file__).with_name("imported.yaml"))
_OWN_KIND = "kubeflow.org/PyTorchJob"
_WORLD = re.compile(_TABLES["world"], re.VERBOSE)
_UNSAID = re.compile("|".join(_TABLES["unsaid"]))
_SHOWN = ("cpu", "memory", "timeout")
Entry = dict[str, Any]
Field = tuple[str, ...]
"""The path of keys to a value in an entry."""


class Leaf(NamedTuple):
    """A value in a document, and its path."""

    place: Place = ()
    value: Any = None


def imported(document: Mapping[str, Any]) -> tuple[str, Entry, list[str]]:
    """Return a job's name, its entry, and notes on the values that the entry can't contain.

    Raises:
        ValueError: the kind is not supported, no image is valid, or the entry as a whole is not.
    """
    kind = f"{str(document.get('apiVersion')).partition('/')[0]}/{document.get('kind')}"
    if kind not in _TABLES["kinds"]:
        raise ValueError(f"its kind is not supported; valid kinds: {', '.join(_TABLES['kinds'])}")
    leaves = _leaves(document, kind)
    notes = [] if kind == _OWN_KIND else [*_without_world(leaves)]
    source = str(leaves.get("metadata name", leaves.get("metadata generateName", Leaf())).value)
    name = re.sub(r"[^a-z0-9]+", "-", source.lower())[:40].lstrip("-0123456789").strip("-") or "job"
    name = f"{name}-imported" if name in CATALOG else name
    if name != source:
        notes.append(f"metadata.name: {quote(source)} is renamed to {name}")
    fields = {key: field for key in leaves if (field := _field(key))}
    entry: Entry = {}
    for key, field in fields.items():
        _put(entry, field, _value(field, leaves[key].value))
    if "image" not in entry:
        raise ValueError(_TABLES["no image"])
    _complete(entry, leaves)
    reasons = _allow(name, entry)
    sent = _sent(name, entry)
    job = _shorten(name, entry, sent)
    names = "|".join([r"PET_\w+", *TAKEN, *(key.split()[-2] for key in leaves if " env " in key)])
    for key, leaf in leaves.items():
        field = fields.get(key, ())
        is_unsaid = leaf.value in (None, {}, []) or _UNSAID.fullmatch(key)
        is_other = field not in reasons and re.fullmatch(_TABLES["converted"], key)
        value = str(_value(field, leaf.value, names))
        if not (is_unsaid or is_other or value == sent.get(key)):
            notes.append(_note(key, leaf, reasons.get(field)))
    notes += (
        f"by default the job gets {key}: {getattr(job, key)}" for key in _SHOWN if key not in entry
    )
    return name, {key: entry[key] for key in KEYS if key in entry}, [*dict.fromkeys(notes)]


def _leaves(document: Mapping[str, Any], kind: str) -> dict[str, Leaf]:
    """Return the values in a document, keyed by the path that each would have in a PyTorchJob."""
    leaves: dict[str, Leaf] = {}
    for place, path, value in _flat(document):
        key = " ".join(path)
        moved = (
            each for each in _TABLES["kinds"][kind].items() if f"{key} ".startswith(f"{each[0]} ")
        )
        prefix, other = next(moved, ("", ""))
        leaves[f"{other}{key[len(prefix) :]}".strip()] = Leaf(place, value)
    if not any(key.startswith("Worker ") for key in leaves):
        leaves = {re.sub("^Master ", "Worker ", key): leaf for key, leaf in leaves.items()}
    mounts = {str(leaves[key].value): key.split()[-2] for key in leaves if " mountPath" in key}
    for name, mounted in OWN_VOLUMES.items():
        if any(f" volumes {mounts.get(mounted)} emptyDir" in key for key in leaves):
            volume = re.compile(f"( volumes| volumeMounts) {re.escape(mounts[mounted])} ")
            leaves = {volume.sub(rf"\1 {name} ", key): leaf for key, leaf in leaves.items()}
    return leaves


def _flat(value: Any, place: Place = (), path: Field = ()) -> Iterator[tuple[Place, Field, Any]]:
    """Yield each value in a document, its path with list indices, and the one with items' names."""
    listed = value if isinstance(value, list) else []
    names = [str(each["name"]) for each in listed if isinstance(each, dict) and "name" in each]
    if isinstance(value, dict) and value:
        for key, each in value.items():
            yield from _flat(each, (*place, key), (*path, key))
    elif not names or len(names) < len(listed):
        yield place, path, value
    elif all(len(each) == 1 for each in listed):
        yield place, path, names
    else:
        if path[-1:] == ("containers",) and CONTAINER not in names:
            names[0] = CONTAINER
        for index, (name, each) in enumerate(zip(names, listed, strict=True)):
            inside = {key: below for key, below in each.items() if key != "name"}
            called = name + "#" * names[:index].count(name)
            yield from _flat(inside, (*place, index), (*path, called))


def _field(key: str) -> Field:
    """Return the entry's field for a path in a PyTorchJob, or an empty tuple if there is none."""
    matches = ((re.fullmatch(pattern, key), field) for pattern, field in _TABLES["fields"])
    return next((tuple(match.expand(field).split()) for match, field in matches if match), ())


def _value(field: Field, value: Any, known: str | None = None) -> Any:
    """Convert a value to its form in an entry or, if `known` is set, in a manifest.

    `known` is a pattern for the variables that Kubernetes expands in the manifest, as in $(NAME).
    """
    if field[:1] in {("command",), ("args",), ("env",)}:
        if isinstance(value, list):
            return [_value(field, each, known) for each in value]
        text = str(value).replace("$$", "$")
        return text if known is None else literal(text, known)
    if known is not None:
        return value
    if field[-1:] == ("emptyDir",):
        return True if value in ({}, "", "Memory") else value
    return int(value) if field == ("processesPerNode",) and str(value).isdecimal() else value


def _complete(entry: Entry, leaves: Mapping[str, Leaf]) -> None:
    """Add the fields that depend on several values: workers, missing requests, and Master GPUs."""
    roles = {"Worker", "Master"} & {key.partition(" ")[0] for key in leaves}
    counts = (str(leaves.get(f"{role} replicas", Leaf()).value) for role in roles)
    total = sum(int(count) if count.isdecimal() else 1 for count in counts)
    entry["workers"] = max(0, total - ("elastic" not in entry))
    for group in (entry, entry.get("master", {})):
        for name, amount in group.get("limits", {}).items():
            group.setdefault(name, amount)
    if "Master" in roles and "gpus" in entry:
        entry.setdefault("master", {}).setdefault("gpus", 0)


def _allow(name: str, entry: Entry) -> dict[Field, str]:
    """Remove an entry's invalid fields, and return the reason for each.

    Raises:
        ValueError: the problem is with the image or the entry as a whole.
    """
    reasons: dict[Field, str] = {}
    while not isinstance(problems := declare(name, entry, name), TrainingJob):
        places = {located(name, field): field for field in _fields(entry)}
        for problem in problems:
            below = (at for at in places if re.match(rf"{re.escape(at)}([.\[]|$)", problem.key))
            field = places.get(next(below, ""), ("image",))
            if field == ("image",):
                raise ValueError("; ".join(map(str, problems)))
            reasons[field] = problem.text
            _put(entry, field)
    return reasons


def _shorten(name: str, entry: Entry, sent: Mapping[str, str]) -> TrainingJob:
    """Remove an entry's fields that do not change its manifest, `sent`, and return its job."""
    for field in _fields(entry):
        less = copy.deepcopy(entry)
        _put(less, field)
        if field != ("workers",) and _sent(name, less) == sent:
            _put(entry, field)
    return cast("TrainingJob", declare(name, entry, name))


def _sent(name: str, entry: Entry) -> dict[str, str]:
    """Return the values in an entry's manifest, keyed by path, or {} if the entry is invalid."""
    if not isinstance(job := declare(name, entry, name), TrainingJob):
        return {}
    leaves = _leaves(manifest(Submission(job=job, image=job.image)), _OWN_KIND)
    return {key: str(leaf.value) for key, leaf in leaves.items()}


def _fields(entry: Entry) -> list[Field]:
    """Return the paths of an entry's fields, nested fields first."""
    maps = (key for key, value in entry.items() if isinstance(value, dict))
    return [*((key, inner) for key in maps for inner in entry[key]), *((key,) for key in entry)]


def _put(entry: Entry, field: Field, value: Any = None) -> None:
    """Set a value in an entry; None removes the field."""
    *above, last = field
    for part in above:
        entry[part] = entry[part] if isinstance(entry.get(part), dict) else {}
        entry = entry[part]
    entry[last] = value
    if value is None:
        del entry[last]


def _without_world(leaves: dict[str, Leaf]) -> Iterator[str]:
    """Remove torchrun's options about other ranks from command lines; yield a note about each."""
    for key, leaf in [*leaves.items()]:
        if re.fullmatch(r"Worker .* pytorch (command|args)", key) and isinstance(leaf.value, list):
            text = "".join(f"\0{word}" for word in leaf.value)
            for _, option, value in _WORLD.findall(text):
                if option.startswith("nproc"):
                    leaves["spec nprocPerNode"] = Leaf(leaf.place, value)
                yield f"{located('', leaf.place)} --{option} {value}: the training operator sets it"
            leaves[key] = Leaf(leaf.place, _WORLD.sub("", text).split("\0")[1:])


def _note(key: str, leaf: Leaf, refused: str | None) -> str:
    """Describe why an entry can't contain a value, or the subtree that the value is in."""
    matches = ((re.search(pattern, key), reason) for pattern, reason in _TABLES["reasons"].items())
    nothing = (None, "there is no such field (docs/jobs.md)")
    match, reason = next((each for each in matches if each[0]), nothing)
    below = key[match.end() :].count(" ") if match and refused is None else 0
    value = "" if below else f" {quote(leaf.value)}"
    return f"{located('', leaf.place[: len(leaf.place) - below])}{value}: {refused or reason}"
