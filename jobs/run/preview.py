"""What a preview shows of a run: what a change of it means, and what a new one submits."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import yaml
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException

from core.context import Context
from core.handler import SECRET, UNKNOWN, Change, Placeholder
from core.kube import api_message
from core.problem import quote
from jobs.api.client import JobApi, Unreachable
from jobs.cost import TrainingCost
from jobs.model.kept import keeping, program, resuming
from jobs.model.tracked import tracked, variables
from jobs.plan import described, requested
from jobs.run.changes import ARTIFACTS, decisive, is_other_content

_IN_PLACE = frozenset(
    {
        *("labels", "annotations", "priorityClass", "ttlSecondsAfterFinished", "cleanPodPolicy"),
        *("backoffLimit", "timeout", "startTimeout", "retries", "onCancel", "dependsOn"),
        *("minGpuUtilization", "retryOn", "checkpoint", "outputsEvery"),
    }
)
"""Fields of a declaration that can't alter a result."""
_PLAIN = re.compile(r"[^\s\"'{}\[\]]+")
_IMAGE = re.compile(r".*\.containers\[\d+\]\.image")
_SCRIPT = re.compile(r".*\.volumes\[\d+\]\.configMap\..*")
_PLACE = re.compile(r"pytorchReplicaSpecs\.(\w+\.template\.spec\.)?")
_MOST = 5
_REFUSALS = frozenset({400, 403, 413, 422})
_WORDS = {UNKNOWN: "<known later>", SECRET: "<secret>"}

Leaf = tuple[str, Any, Any]
"""A path, its former value, and its present value; None for nothing."""


def describe(
    changes: Sequence[Change], state: Mapping[str, Any], inputs: Mapping[str, Any]
) -> str | None:
    """Return what `changes` mean: which field, from what to what, and whether it trains again.

    That is one line; None when no field of the declaration changed. `state` has the run's inputs
    of last time, and its result.
    """
    before, declared = state["declared"], inputs["declared"]
    fields = [*leaves(before, declared)]
    if not any(change.replace for change in changes):
        if inputs.get(ARTIFACTS) is UNKNOWN:
            return "trains again if the jobs before it leave other inputs than last time"
        return f"{_listed(map(_worded, fields))}; nothing is trained" if fields else None
    others = [*leaves(_decisive(state), _decisive(inputs))]
    reasons = [_worded(each) for each in fields if re.split(r"[.\[]", each[0])[0] not in _IN_PLACE]
    reasons += _contents(before, declared, others)
    reasons += [
        f"input {change.path.split('.')[1]} is another file"
        for change in changes
        if is_other_content(change)
    ]
    if not reasons:
        # Slipway renders it otherwise than before: what differs, once for all roles.
        nameless = [(_PLACE.sub("", path), old, new) for path, old, new in others]
        reasons = [*dict.fromkeys(map(_worded, nameless))]
    result = state["result"]
    if result["state"] != "Succeeded":
        reasons.append(f"the last run ended {result['state']}: {result.get('reason', '')}")
    begins = _begins(state, inputs) if "checkpoint" in inputs else ""
    return f"trains again: {_listed(reasons)}{begins}"


def _begins(state: Mapping[str, Any], inputs: Mapping[str, Any]) -> str:
    """Return where a job with checkpoints begins: what succeeded leaves none to go on from."""
    is_same = program(state["manifest"]) == program(inputs["manifest"])
    if is_same and state["result"]["state"] != "Succeeded":
        return "; it resumes from its newest checkpoint, if there is one"
    return "; it begins anew, not from a checkpoint"


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


def _contents(
    before: Mapping[str, Any], declared: Mapping[str, Any], others: Sequence[Leaf]
) -> Iterator[str]:
    """Yield what changed of the program that the declaration does not name: its image or files."""
    images = [now for path, _, now in others if _IMAGE.fullmatch(path)]
    if images and "image" not in before and "image" not in declared:
        what = "the trainer's image"
        if "build" in declared:
            what = f"the image built from {declared['build']['context']}"
        elif "requirements" in declared:
            what = f"the image with the packages of {declared['requirements']}"
        yield f"{what} {'is built anew' if images[0] is UNKNOWN else 'changed'}"
    script = declared.get("script")
    if script == before.get("script") and any(_SCRIPT.fullmatch(path) for path, _, _ in others):
        yield f"script {script} changed"


def _decisive(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return all of a run's properties that can alter its result."""
    manifest, namespace = properties["manifest"], properties["namespace"]
    identity = {"namespace": namespace, "name": manifest["metadata"]["name"]}
    return {**identity, **decisive(manifest)}


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
    """Show a new run's PyTorchJob and its needs, and check it with a running API server.

    `shown` has the inputs with SECRET for what is secret.

    Raises:
        RuntimeError: the API server or the operator's webhook refuses it, with their message.
    """
    # The first line is what the resource's own row has room for.
    line = f"needs {described(requested(inputs['manifest']))}; {ask(inputs)}"
    if cost := inputs.get("cost"):
        seconds = inputs["timeoutSeconds"] * (inputs["retries"] + 1)
        line += f"; costs {TrainingCost(**cost).most_in_words(seconds)}, until its timeout"
    known, every = inputs.get("checkpoint"), inputs.get("outputsEvery")
    complete = resuming(shown["manifest"], known, every)
    complete = tracked(keeping(complete, inputs.get("kept")), variables(inputs.get("tracking")))
    context.info(f"{line}\n{render(complete)}")


def render(manifest: Mapping[str, Any]) -> str:
    """Return a PyTorchJob as YAML; secrets and unknown values by name."""
    shown = _plain(manifest, _WORDS)
    return yaml.dump(shown, Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True)


def ask(inputs: Mapping[str, Any]) -> str:
    """Check whether the API server would admit a run's PyTorchJob, and return its answer.

    Raises:
        RuntimeError: it, or the operator's webhook, would not.
    """
    manifest, namespace = inputs["manifest"], inputs["namespace"]
    if inputs["kubeconfig"] is UNKNOWN:
        return "not validated, because its cluster does not exist yet"
    name = manifest["metadata"]["name"]
    try:
        api = JobApi.connect(inputs["kubeconfig"], namespace, name)
        api.admit(_plain(manifest, {UNKNOWN: "not-known-yet"}))
    except ApiException as error:
        if error.status in _REFUSALS:
            raise RuntimeError(
                f"PyTorchJob {namespace}/{name} would be refused: {api_message(error)}"
            ) from error
        return f"the API server could not judge it: {api_message(error)}"
    except Unreachable:
        return "its API server does not answer, so it was not asked"
    except ConfigException as error:
        return f"its API server was not asked: {error}"
    return "the API server admits it"


def _plain(value: Any, words: Mapping[Any, str]) -> Any:
    """Return `value` with words for what is secret or not known, in an order that stays.

    The engine knows no order. A name comes first.
    """
    if isinstance(value, Mapping):
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
