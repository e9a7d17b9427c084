"""`make import`: entries of `slipway:jobs` from the YAML of other jobs.

What an entry can't carry is found by comparing the job with the manifest of its entry.
"""

import copy
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import yaml

from core import manifests
from core.problem import Path as Place
from core.problem import located, quote
from jobs.config import CATALOG, KEYS, declare, mistakes
from jobs.model.fields import TAKEN
from jobs.model.job import TrainingJob
from jobs.model.manifest import manifest
from jobs.model.names import CONTAINER, OWN_VOLUMES, literal
from jobs.model.submission import Submission
from jobs.rules.rule import Surroundings
from scripts.cli.config import jobs_of, own
from scripts.cli.terminal import CommandError, echo

_TABLES = manifests.read(Path(__file__).with_name("from_yaml.yaml"))
_OWN_KIND = "kubeflow.org/PyTorchJob"
_WORLD = re.compile(rf"(?:\s|\0)*--({_TABLES['world']})[=\s\0]+(\"[^\"]*\"|'[^']*'|[^\s\0]+)")
Entry = dict[str, Any]
Field = tuple[str, ...]
"""The keys that lead to a value in an entry."""


class _Dumper(yaml.SafeDumper):
    """Quotes what another reader of YAML may take for a number or a boolean."""


_LIKE_A_NUMBER = re.compile(r"([-+]?[.\d][\d_.,:eExXoa-fA-F+-]*|[yYnN])$")
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _LIKE_A_NUMBER, None)


class Leaf(NamedTuple):
    """A value of a document, and where that has it."""

    place: Place = ()
    value: Any = None


def show(stack: str, file: str) -> int:
    """Print the entries of a file's jobs, and beside them what of each is not carried."""
    entries: dict[str, Entry] = {}
    for document in documents(file):
        metadata = document.get("metadata")
        called = metadata.get("name", "") if isinstance(metadata, dict) else ""
        try:
            name, entry, notes = imported(document)
        except ValueError as error:
            echo(f"{document.get('kind')} {called} is left out: {error}")
            continue
        if name in {*entries, *jobs_of(stack)}:
            notes.append(f"{name} is the name of another job, too; change one of them")
        entries.setdefault(name, entry)
        what = "imported, but for:" if notes else "imported"
        echo("\n  ".join([f"{document['kind']} {called} is {what}", *notes]))
    if not entries:
        raise CommandError(f"{file} has no job that can be imported.")
    print(as_yaml({"config": {"slipway:jobs": entries}}), end="")
    echo(f"Add it to slipway:jobs in {own(stack).name}, then: make preview STACK={stack}")
    return 0


def documents(file: str) -> Iterator[Mapping[str, Any]]:
    """Yield the objects in a file, those of a List one by one; raise `CommandError`."""
    try:
        text = Path(file).read_text()
        # Dates are text, as they are to Kubernetes.
        parsed = [] if "{{" in text else [*yaml.load_all(text, yaml.CSafeLoader)]
        found = json.loads(json.dumps(parsed, default=str))
    except (OSError, yaml.YAMLError, TypeError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise CommandError(f"make import FILE={file}: it can't be read: {reason}.") from error
    if "{{" in text:
        raise CommandError(f"{file} is a template, as of Helm; import what `helm template` prints.")
    for document in found:
        listed = document.get("items") if isinstance(document, dict) else None
        for each in listed if isinstance(listed, list) else [document]:
            if isinstance(each, dict):
                yield each
            elif each is not None:
                echo(f"{quote(each)} is left out: it is no object of Kubernetes")


def as_yaml(document: Mapping[str, Any]) -> str:
    """Return a document as YAML that all readers of YAML read alike."""
    options: Any = {"sort_keys": False, "allow_unicode": True, "width": 1000}
    return str(yaml.dump(document, Dumper=_Dumper, default_flow_style=None, **options))


def imported(document: Mapping[str, Any]) -> tuple[str, Entry, list[str]]:
    """Return a job's name, its entry, and what that lacks; raise `ValueError` without one."""
    kind = f"{str(document.get('apiVersion')).partition('/')[0]}/{document.get('kind')}"
    if kind not in _TABLES["kinds"]:
        raise ValueError(f"it is none of {', '.join(_TABLES['kinds'])}")
    leaves = _leaves(document, kind)
    notes = [] if kind == _OWN_KIND else [*_without_world(leaves)]
    given = str(leaves.get("metadata name", leaves.get("metadata generateName", Leaf())).value)
    name = re.sub(r"[^a-z0-9]+", "-", given.lower()).lstrip("-0123456789")[:31].strip("-") or "job"
    name = f"{name}-imported" if name in CATALOG else name
    if name != given:
        notes.append(f"metadata.name: {quote(given)} is called {name}")
    fields = {key: field for key in leaves if (field := _field(key))}
    entry: Entry = {}
    for key, field in fields.items():
        _put(entry, field, _value(field, leaves[key].value))
    if "image" not in entry:
        raise ValueError(_TABLES["no image"])
    _complete(entry, leaves)
    reasons = _allow(name, entry)
    job = _shorten(name, entry)
    sent = _leaves(_rendered(name, entry), _OWN_KIND)
    known = "|".join([r"PET_\w+", *TAKEN, *(key.split()[-2] for key in leaves if " env " in key)])
    unsaid = "|".join(_TABLES["unsaid"])
    for key, leaf in leaves.items():
        field = fields.get(key, ())
        is_unsaid = leaf.value in (None, {}, []) or re.fullmatch(unsaid, key)
        is_other = field not in reasons and re.fullmatch(_TABLES["converted"], key)
        value = str(_value(field, leaf.value, known))
        if not (is_unsaid or is_other or value == str(sent.get(key, Leaf()).value)):
            notes.append(_note(key, leaf, reasons.get(field)))
    notes += (str(rule.problem(found, name)) for rule, found in mistakes(job, Surroundings()))
    unset = [
        f"{key} {getattr(job, key)}" for key in ("cpu", "memory", "timeout") if key not in entry
    ]
    notes += [f"what is {', '.join(unset)} by default"] * bool(unset)
    return name, {key: entry[key] for key in KEYS if key in entry}, [*dict.fromkeys(notes)]


def _leaves(document: Mapping[str, Any], kind: str) -> dict[str, Leaf]:
    """Return the values of a document by where they would be in a PyTorchJob."""
    found: dict[str, Leaf] = {}
    for place, path, value in _flat(document):
        key = " ".join(path)
        for prefix, other in _TABLES["kinds"][kind].items():
            if f"{key} ".startswith(f"{prefix} "):
                key = f"{other}{key[len(prefix) :]}".strip()
                break
        found[key] = Leaf(place, value)
    if not any(key.startswith("Worker ") for key in found):
        found = {re.sub("^Master ", "Worker ", key): leaf for key, leaf in found.items()}
    for name, mounted in OWN_VOLUMES.items():
        for key in [
            key for key in found if found[key].value == mounted and key.endswith("mountPath")
        ]:
            volume = key.split()[-2]
            if any(f" volumes {volume} emptyDir" in each for each in found):
                other = re.compile(f"( volumes| volumeMounts) {re.escape(volume)} ")
                found = {other.sub(rf"\1 {name} ", each): leaf for each, leaf in found.items()}
    return found


def _flat(value: Any, place: Place = (), path: Field = ()) -> Iterator[tuple[Place, Field, Any]]:
    """Yield a document's values with their places, and these with items called by their names."""
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
    """Return where an entry has what is at a place of a PyTorchJob; empty where it has not."""
    found = ((re.fullmatch(pattern, key), field) for pattern, field in _TABLES["fields"])
    return next((tuple(match.expand(field).split()) for match, field in found if match), ())


def _value(field: Field, value: Any, known: str | None = None) -> Any:
    """Return a value as an entry has it; with `known` variables as a manifest has it."""
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
    """Add what follows from several values: the number of Workers, and requests from limits."""
    roles = {"Worker", "Master"} & {key.partition(" ")[0] for key in leaves}
    counts = (str(leaves.get(f"{role} replicas", Leaf(value=1)).value) for role in roles)
    total = sum(int(count) if count.isdecimal() else 1 for count in counts)
    entry["workers"] = max(0, total - ("elastic" not in entry))
    for group in (entry, entry.get("master", {})):
        for name, amount in group.get("limits", {}).items():
            group.setdefault(name, amount)
    if "Master" in roles and "gpus" in entry:
        entry.setdefault("master", {}).setdefault("gpus", 0)


def _allow(name: str, entry: Entry) -> dict[Field, str]:
    """Take out of an entry what no job may have, and return why; raise `ValueError`."""
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


def _shorten(name: str, entry: Entry) -> TrainingJob:
    """Take out of an entry what its manifest has also without; return its job."""
    sent = _rendered(name, entry)
    for field in _fields(entry):
        less = copy.deepcopy(entry)
        _put(less, field)
        if field != ("workers",) and _rendered(name, less) == sent:
            _put(entry, field)
    return cast("TrainingJob", declare(name, entry, name))


def _rendered(name: str, entry: Entry) -> dict[str, Any]:
    """Return the manifest of an entry's job; an empty one where it is not allowed."""
    job = declare(name, entry, name)
    return manifest(Submission(job=job, image=job.image)) if isinstance(job, TrainingJob) else {}


def _fields(entry: Entry) -> list[Field]:
    """Return what an entry has, what is inside of it first."""
    maps = {key: value for key, value in entry.items() if isinstance(value, dict)}
    return [
        *((key, each) for key, value in maps.items() for each in value),
        *((key,) for key in entry),
    ]


def _put(entry: Entry, field: Field, value: Any = None) -> None:
    """Set a value in an entry, or take it out."""
    *above, last = field
    for part in above:
        entry = entry.setdefault(part, {})
    entry[last] = value
    if value is None:
        del entry[last]


def _without_world(leaves: dict[str, Leaf]) -> Iterator[str]:
    """Take torchrun's options for its world out of a program's words, and yield each of them."""
    for key, leaf in [*leaves.items()]:
        if re.fullmatch(r"Worker .* pytorch (command|args)", key) and isinstance(leaf.value, list):
            text = "\0".join(map(str, leaf.value))
            for option, value in _WORLD.findall(text):
                if option.startswith("nproc"):
                    leaves["spec nprocPerNode"] = Leaf(leaf.place, value)
                yield f"{located('', leaf.place)} --{option} {value}: the training operator sets it"
            leaves[key] = Leaf(leaf.place, _WORLD.sub("", text).split("\0"))


def _note(key: str, leaf: Leaf, refused: str | None) -> str:
    """Return why an entry can't have a value, or all that is at a place above."""
    found = ((re.search(pattern, key), reason) for pattern, reason in _TABLES["reasons"].items())
    nothing = (None, "there is no such field (docs/jobs.md)")
    match, reason = next((each for each in found if each[0]), nothing)
    below = key[match.end() :].count(" ") if match and refused is None else 0
    value = "" if below else f" {quote(leaf.value)}"
    return f"{located('', leaf.place[: len(leaf.place) - below])}{value}: {refused or reason}"
