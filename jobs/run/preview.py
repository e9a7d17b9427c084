"""What a preview shows of a new run: its PyTorchJob, what it needs, and whether it is refused."""

from collections.abc import Mapping
from typing import Any

import yaml
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException

from core.context import Context
from core.handler import SECRET, UNKNOWN, Placeholder
from core.kube import api_message
from jobs.api import JobApi, Unreachable
from jobs.cost import TrainingCost
from jobs.plan import described, requested
from jobs.spec.checkpoints import resuming
from jobs.spec.kept import keeping

_REFUSALS = frozenset({400, 403, 413, 422})
_WORDS = {UNKNOWN: "<known later>", SECRET: "<secret>"}


def show(
    inputs: Mapping[str, Any], shown: Mapping[str, Any], printed: set[str], context: Context
) -> None:
    """Show a new run's PyTorchJob and its needs, and check it with a running API server.

    Args:
        inputs: Of the run; values may be UNKNOWN.
        shown: The same with SECRET for what is secret.
        printed: What holds for the whole stack, and was shown with another run already.
        context: Where to.

    Raises:
        RuntimeError: the API server or the operator's webhook refuses it, with their message.
    """
    # The first line is what the resource's own row has room for.
    lines = [f"needs {described(requested(inputs['manifest']))}; {ask(inputs)}"]
    if cost := inputs.get("cost"):
        seconds = inputs["timeoutSeconds"] * (inputs["retries"] + 1)
        lines[0] += f"; costs {TrainingCost(**cost).most_in_words(seconds)}, until its timeout"
    if (room := inputs["room"]) not in printed:
        printed.add(room)
        lines.append(room)
    complete = resuming(shown["manifest"], inputs.get("checkpoint"))
    complete = keeping(complete, inputs.get("kept"))
    context.info("\n".join([*lines, render(complete)]))


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


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    )


_Dumper.add_representer(str, _text)
