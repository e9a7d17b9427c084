"""What a preview shows of a run: what a change of it means, and what a new one submits."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import yaml
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException

from core.context import SHOWN_VARIABLE, Context
from core.handler import SECRET, UNKNOWN, Change, Placeholder, differences
from core.kube import api_message
from core.problem import quote
from jobs.api.client import JobApi, Unreachable
from jobs.model.fields import Effect
from jobs.model.job import EFFECTS
from jobs.model.manifest import checkpoint_key, manifest
from jobs.model.submission import Submission
from jobs.observe.progress import duration
from jobs.plan import TrainingCost, described, shares
from jobs.records.history import provenance
from jobs.result import RUNNING

_PLAIN = re.compile(r"[^\s\"'{}\[\]]+")
_MOST = 5
_REFUSALS = frozenset({400, 403, 413, 422})
_WORDS = {UNKNOWN: "<known later>", SECRET: "<secret>"}

Leaf = tuple[str, Any, Any]
"""A path, its former value, and its present value; None for nothing."""


def alters_result(
    changes: Iterable[Change], state: Mapping[str, Any], inputs: Mapping[str, Any]
) -> list[Change]:
    """Return changes of a run's inputs, of which those that can alter its result replace it."""
    before, now = (_decisive(each) for each in (state, inputs))
    if inputs.get("artifacts") is UNKNOWN:
        # Whether they are others shows when the jobs before this one have run.
        now["artifacts"] = before.get("artifacts", {})
    paths = [each.path for each in differences(before, now)]
    return [
        replace(change, replace=any(_within(change.path, path) for path in paths))
        for change in changes
    ]


def _decisive(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a run's inputs can alter its result, at the places where inputs have it."""
    try:
        found = Submission.from_inputs(inputs).decisive()
    except RuntimeError:
        # Declared when another job was allowed.
        found = {"job": inputs["job"]}
    # A job is its first name: which one that is, `was` says.
    job = {**found["job"], "was": found["job"]["name"]}
    return {"namespace": inputs["namespace"], **found, "job": job}


def _within(path: str, other: str) -> bool:
    """Return whether one of two paths is the other one, or below it."""
    short, long = sorted((path, other), key=len)
    return long == short or long.startswith((f"{short}.", f"{short}["))


def describe(
    changes: Sequence[Change], state: Mapping[str, Any], inputs: Mapping[str, Any]
) -> str | None:
    """Return in one line which fields changed, from what to what, and whether that trains again.

    None when no field of the job did. `state` has the run's last inputs and its result.
    """
    before, declared = state["job"], inputs["job"]
    fields = [*leaves(before, declared)]
    if not any(change.replace for change in changes):
        if inputs.get("artifacts") is UNKNOWN:
            return "trains again if the jobs before it leave other inputs than last time"
        return f"{_listed(map(_worded, fields))}; nothing is trained" if fields else None
    reasons = [_worded(each) for each in fields if _effect(each) is Effect.TRAINS]
    reasons += [*_contents(state, inputs), *_artifacts(state, inputs)]
    result = state["result"]
    if result["state"] == RUNNING:
        reasons.append("its run goes on, and is ended for it")
    elif result["state"] != "Succeeded":
        reasons.append(f"the last run ended {result['state']}: {result.get('reason', '')}")
    begins = _begins(state, inputs) if "checkpoint" in declared else ""
    return f"trains again: {_listed(reasons)}{begins}"


def _effect(leaf: Leaf) -> Effect | None:
    return EFFECTS.get(re.split(r"[.\[]", leaf[0])[0], Effect.TRAINS)


def _begins(state: Mapping[str, Any], inputs: Mapping[str, Any]) -> str:
    """Return where a job with checkpoints begins: what succeeded leaves none to go on from."""
    before, now = (checkpoint_key(Submission.from_inputs(each)) for each in (state, inputs))
    if before != now:
        return "; it begins anew, not from a checkpoint"
    if state["result"]["state"] != "Succeeded":
        return "; it resumes from its newest checkpoint, if there is one"
    return "; it begins anew, unless an interrupted run has left a checkpoint"


def leaves(old: Any, new: Any, path: str = "") -> Iterator[Leaf]:
    """Yield where two values differ, as deep as they are maps, or lists of one length."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted(old.keys() | new.keys()):
            yield from leaves(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    elif isinstance(old, list | tuple) and isinstance(new, list | tuple) and len(old) == len(new):
        for index, (before, now) in enumerate(zip(old, new, strict=True)):
            yield from leaves(before, now, f"{path}[{index}]")
    elif old != new:
        yield path, old, new


def _contents(state: Mapping[str, Any], inputs: Mapping[str, Any]) -> Iterator[str]:
    """Yield what changed of the program and its files, where the job names them or not."""
    before, declared = state["job"], inputs["job"]
    for field in ("was", "torch"):
        if before.get(field) != declared.get(field):
            yield _worded((field, before.get(field), declared.get(field)))
    if state["image"] != inputs["image"]:
        if "image" in before or "image" in declared:
            yield _worded(("image", before.get("image"), declared.get("image")))
        else:
            what = "the trainer's image"
            if "build" in declared:
                what = f"the image built from {declared['build']['context']}"
            elif "requirements" in declared:
                what = f"the image with the packages of {declared['requirements']}"
            yield f"{what} {'is built anew' if inputs['image'] is UNKNOWN else 'changed'}"
    if (old := state.get("script")) != (new := inputs.get("script")):
        script = declared.get("script")
        if script == before.get("script") and old and new:
            yield f"script {script} changed"
        else:
            yield _worded(("script", before.get("script"), script))
    if state["namespace"] != inputs["namespace"]:
        yield _worded(("namespace", state["namespace"], inputs["namespace"]))


def _artifacts(state: Mapping[str, Any], inputs: Mapping[str, Any]) -> Iterator[str]:
    """Yield which of a job's inputs is another file."""
    known, now = state.get("artifacts", {}), inputs.get("artifacts", {})
    for name in sorted(known.keys() & now.keys()) if now is not UNKNOWN else ():
        if now[name].get("sha256") not in {None, known[name].get("sha256")}:
            yield f"input {name} is another file"


def _worded(leaf: Leaf) -> str:
    path, old, new = leaf
    before, now = _value(old), _value(new)
    return f"{path} {'changed' if before == now else f'{before} → {now}'}"


def _value(value: object) -> str:
    if value is None:
        return "unset"
    if value is UNKNOWN:
        return "what is known later"
    if isinstance(value, str) and _PLAIN.fullmatch(value) and len(value) < len(quote(value)):
        return value
    return quote(value)


def _listed(parts: Iterable[str]) -> str:
    first, more = [*parts][:_MOST], [*parts][_MOST:]
    return "; ".join(first) + (f"; and {len(more)} more" if more else "")


def show(inputs: Mapping[str, Any], shown: Mapping[str, Any], context: Context) -> None:
    """Show a new run's needs, and check its PyTorchJob with a running API server.

    That is printed for the job that SHOWN_VARIABLE names; `shown` has SECRET for what is secret.

    Raises:
        RuntimeError: the API server or the operator's webhook refuses it, with their message.
    """
    job = Submission.from_inputs(inputs).job
    line = f"needs {described(shares(job))}; ends after {duration(job.timeout)} at most"
    line += f"; {validate_admission(inputs)}"
    if cost := inputs.get("cost"):
        seconds = job.timeout * (job.retries + 1) + job.hold
        line += f"; costs {TrainingCost(**cost).most_in_words(seconds)}, until its timeout"
    is_shown = job.name == os.environ.get(SHOWN_VARIABLE)
    context.info(f"{line}\n{render(_manifest(shown))}" if is_shown else line)


def _manifest(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a run with these inputs submits, but for the labels that name the run."""
    facts = provenance(inputs) if "tracking" in inputs else None
    return manifest(Submission.from_inputs(inputs), facts=facts)


def render(manifest: Mapping[str, Any]) -> str:
    """Return a PyTorchJob as YAML; secrets and unknown values by name."""
    shown = _plain(manifest, _WORDS)
    return yaml.dump(shown, Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True)


def validate_admission(inputs: Mapping[str, Any]) -> str:
    """Return the API server's answer to a run's PyTorchJob; raise `RuntimeError` if it refuses."""
    namespace, name = inputs["namespace"], inputs["job"]["name"]
    submitted = _manifest(inputs)
    if inputs["kubeconfig"] is UNKNOWN:
        return "not validated, because its cluster does not exist yet"
    try:
        api = JobApi.connect(inputs["kubeconfig"], namespace, name)
        api.admit(_plain(submitted, {UNKNOWN: "not-known-yet"}))
    except ApiException as error:
        if error.status in _REFUSALS:
            raise RuntimeError(
                f"PyTorchJob {namespace}/{name} would be refused: {api_message(error)}"
            ) from error
        return f"not validated, the API server could not judge it: {api_message(error)}"
    except Unreachable:
        return "not validated, because the API server does not answer"
    except ConfigException as error:
        return f"not validated: {error}"
    return "the API server admits it"


def _plain(value: Any, words: Mapping[Any, str]) -> Any:
    """Return `value` with words for what is secret or not known, in an order that stays."""
    if isinstance(value, Mapping):
        # The engine knows no order. A name comes first.
        keys = sorted(value, key=lambda key: (key != "name", key))
        return {key: _plain(value[key], words) for key in keys}
    if isinstance(value, list):
        return [_plain(each, words) for each in value]
    return words.get(value, value) if isinstance(value, Placeholder) else value


class _Dumper(yaml.SafeDumper):
    """Writes a text of several lines as such, so that a program can be read."""


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    ),
)
