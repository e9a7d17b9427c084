"""Preview a run: show the effect of a change, or the manifest of a new run."""

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
from core.kube import REQUEST_ERRORS, api_message, reason
from core.problem import quote
from jobs.api.client import JobApi
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
"""A path, its old value and its new value; None stands for a missing value."""


def alters_result(
    changes: Iterable[Change], state: Mapping[str, Any], inputs: Mapping[str, Any]
) -> list[Change]:
    """Return the changes, marking those that can alter the run's result as replacements."""
    before, now = (_decisive(each) for each in (state, inputs))
    if inputs.get("artifacts") is UNKNOWN:
        # Artifacts are known only after the jobs that this one depends on have run.
        now["artifacts"] = before.get("artifacts", {})
    keys = ("torch", "build", "image", "requirements")
    old, new = ([each["job"].get(key) for key in keys] for each in (state, inputs))
    if state.get("result", {}).get("state") == RUNNING and old == new and not any(new[1:]):
        # The trainer's own image: a newer Slipway does not stop a run that trained for weeks.
        now["image"] = before.get("image")
    paths = [each.path for each in differences(before, now)]
    return [
        replace(change, replace=any(_within(change.path, path) for path in paths))
        for change in changes
    ]


def _decisive(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs that determine a run's result, at their paths in the inputs."""
    try:
        values = Submission.from_inputs(inputs).decisive()
    except RuntimeError:
        # Declared with a version of Slipway in which such a job was valid.
        values = {"job": inputs["job"]}
    # A job's identity is its original name, which is in `was`.
    job = {**values["job"], "was": values["job"]["name"]}
    return {"namespace": inputs["namespace"], **values, "job": job}


def _within(path: str, other: str) -> bool:
    """Return whether two paths are equal, or one is below the other."""
    short, long = sorted((path, other), key=len)
    return long == short or long.startswith((f"{short}.", f"{short}["))


def describe(
    changes: Sequence[Change], state: Mapping[str, Any], inputs: Mapping[str, Any]
) -> str | None:
    """Describe in one line the changed fields, their values, and whether the job trains again.

    Return None if no field of the job changed. `state` contains the last run's inputs and result.
    """
    before, declared = state["job"], inputs["job"]
    fields = [*leaves(before, declared)]
    if not any(change.replace for change in changes):
        if inputs.get("artifacts") is UNKNOWN:
            return "trains again if the jobs that it depends on produce different inputs this time"
        return f"{_listed(map(_worded, fields))}; nothing is trained" if fields else None
    reasons = [_worded(each) for each in fields if _effect(each) is Effect.TRAINS]
    reasons += [*_contents(state, inputs), *_artifacts(state, inputs)]
    result = state["result"]
    if result["state"] == RUNNING:
        reasons.append("its run is in progress, and will be stopped")
    elif result["state"] != "Succeeded":
        reasons.append(f"the last run ended {result['state']}: {result.get('reason', '')}")
    begins = _begins(state, inputs) if "checkpoint" in declared else ""
    return f"trains again: {_listed(reasons)}{begins}"


def _effect(leaf: Leaf) -> Effect | None:
    return EFFECTS.get(re.split(r"[.\[]", leaf[0])[0], Effect.TRAINS)


def _begins(state: Mapping[str, Any], inputs: Mapping[str, Any]) -> str:
    """Describe whether a job with checkpoints resumes; a successful run removes checkpoints."""
    before, now = (checkpoint_key(Submission.from_inputs(each)) for each in (state, inputs))
    if before != now:
        return "; it starts over, not from a checkpoint"
    if state["result"]["state"] != "Succeeded":
        return "; it resumes from its newest checkpoint, if there is one"
    return "; it starts over, unless an interrupted run left a checkpoint"


def leaves(old: Any, new: Any, path: str = "") -> Iterator[Leaf]:
    """Yield the differences between two values, including inside maps and lists of equal length."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted(old.keys() | new.keys()):
            yield from leaves(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    elif isinstance(old, list | tuple) and isinstance(new, list | tuple) and len(old) == len(new):
        for index, (before, now) in enumerate(zip(old, new, strict=True)):
            yield from leaves(before, now, f"{path}[{index}]")
    elif old != new:
        yield path, old, new


def _contents(state: Mapping[str, Any], inputs: Mapping[str, Any]) -> Iterator[str]:
    """Yield the changes to the program and its files, whether or not the job names them."""
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
                what = f"the image with the packages from {declared['requirements']}"
            yield f"{what} {'is rebuilt' if inputs['image'] is UNKNOWN else 'changed'}"
    if (old := state.get("script")) != (new := inputs.get("script")):
        script = declared.get("script")
        if script == before.get("script") and old and new:
            yield f"script {script} changed"
        else:
            yield _worded(("script", before.get("script"), script))
    if state["namespace"] != inputs["namespace"]:
        yield _worded(("namespace", state["namespace"], inputs["namespace"]))


def _artifacts(state: Mapping[str, Any], inputs: Mapping[str, Any]) -> Iterator[str]:
    """Yield a message for each of a job's inputs that is now a different file."""
    before, now = state.get("artifacts", {}), inputs.get("artifacts", {})
    for name in sorted(before.keys() & now.keys()) if now is not UNKNOWN else ():
        if now[name].get("sha256") not in {None, before[name].get("sha256")}:
            yield f"input {name} is a different file"


def _worded(leaf: Leaf) -> str:
    path, old, new = leaf
    before, now = _value(old), _value(new)
    return f"{path} {'changed' if before == now else f'{before} → {now}'}"


def _value(value: object) -> str:
    if value is None:
        return "unset"
    if value is UNKNOWN:
        return "a value known later"
    if isinstance(value, str) and _PLAIN.fullmatch(value) and len(value) < len(quote(value)):
        return value
    return quote(value)


def _listed(parts: Iterable[str]) -> str:
    first, more = [*parts][:_MOST], [*parts][_MOST:]
    return "; ".join(first) + (f"; and {len(more)} more" if more else "")


def show(inputs: Mapping[str, Any], shown: Mapping[str, Any], context: Context) -> None:
    """Show a new run's resources, and validate its PyTorchJob against a running API server.

    The job named in SHOWN_VARIABLE is printed as YAML; `shown` has SECRET in place of secrets.

    Raises:
        RuntimeError: the API server or the operator's webhook refused the job, with the reason.
    """
    job = Submission.from_inputs(inputs).job
    line = f"needs {described(shares(job))}; runs for at most {duration(job.timeout)}"
    line += f"; {validate_admission(inputs)}"
    if cost := inputs.get("cost"):
        seconds = job.timeout * (job.retries + 1) + job.hold
        line += f"; costs {TrainingCost(**cost).most_in_words(seconds)}, if it times out"
    is_shown = job.name == os.environ.get(SHOWN_VARIABLE)
    context.info(f"{line}\n{render(_manifest(shown))}" if is_shown else line)


def _manifest(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest of a run with these inputs, without the run's own labels."""
    facts = provenance(inputs) if "tracking" in inputs else None
    return manifest(Submission.from_inputs(inputs), facts=facts)


def render(manifest: Mapping[str, Any]) -> str:
    """Return a PyTorchJob as YAML, with placeholders for secrets and unknown values."""
    shown = _plain(manifest, _WORDS)
    return yaml.dump(shown, Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True)


def validate_admission(inputs: Mapping[str, Any]) -> str:
    """Return the API server's verdict on a run's PyTorchJob; raise `RuntimeError` if refused."""
    namespace, name = inputs["namespace"], inputs["job"]["name"]
    submitted = _manifest(inputs)
    if inputs["kubeconfig"] is UNKNOWN:
        return "not validated, because its cluster does not exist yet"
    try:
        api = JobApi.connect(inputs["kubeconfig"], namespace, name)
        api.admit(_plain(submitted, {UNKNOWN: "not-known-yet"}))
    except REQUEST_ERRORS as error:
        if isinstance(error, ApiException) and error.status in _REFUSALS:
            raise RuntimeError(
                f"PyTorchJob {namespace}/{name} would be refused: {api_message(error)}"
            ) from error
        return f"not validated: {reason(error)}"
    except ConfigException as error:
        return f"not validated: {error}"
    return "the API server admits it"


def _plain(value: Any, words: Mapping[Any, str]) -> Any:
    """Return `value` with placeholders for secrets and unknown values, in a stable order."""
    if isinstance(value, Mapping):
        # The engine does not preserve the order. A name comes first.
        keys = sorted(value, key=lambda key: (key != "name", key))
        return {key: _plain(value[key], words) for key in keys}
    if isinstance(value, list):
        return [_plain(each, words) for each in value]
    return words.get(value, value) if isinstance(value, Placeholder) else value


class _Dumper(yaml.SafeDumper):
    """A YAML dumper that writes multi-line strings as blocks, so that programs stay readable."""


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    ),
)
