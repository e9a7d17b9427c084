"""What a preview shows of a new run: its PyTorchJob, what it needs, and whether it is refused."""

import threading
from collections.abc import Mapping
from typing import Any

import yaml
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException

from core.context import Context
from core.handler import SECRET, UNKNOWN
from jobs.api import JobApi, Unreachable, error_message
from jobs.cost import TrainingCost
from jobs.plan import described, requested

_WIDTH = 100
_STAND_IN = "not-known-yet"
_REFUSALS = frozenset({400, 403, 413, 422})
_WORDS = {UNKNOWN: "<known later>", SECRET: "<secret>"}


class Preview:
    """Shows runs before they are made. One for all: what holds for the stack is shown once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shown: set[str] = set()

    def show(self, inputs: Mapping[str, Any], shown: Mapping[str, Any], context: Context) -> None:
        """Show a run's PyTorchJob and its needs, and check it with a running API server.

        Args:
            inputs: Of the run; values may be UNKNOWN.
            shown: The same with SECRET for what is secret.
            context: Where to.

        Raises:
            RuntimeError: the API server or the operator's webhook refuses it, with their message.
        """
        # The first line is what the resource's own row has room for.
        lines = [f"needs {described(requested(inputs['manifest']))}; {ask(inputs)}"]
        if cost := inputs.get("cost"):
            seconds = inputs["timeoutSeconds"] * (inputs.get("retries", 0) + 1)
            lines[0] += f"; costs {TrainingCost(**cost).most_in_words(seconds)}, until its timeout"
        room = inputs.get("room")
        if isinstance(room, str) and self._is_new(room):
            lines.append(room)
        lines.append(render(shown["manifest"]))
        context.info("\n".join(lines))

    def _is_new(self, text: str) -> bool:
        with self._lock:
            if text in self._shown:
                return False
            self._shown.add(text)
            return True


def render(manifest: Mapping[str, Any]) -> str:
    """Return a PyTorchJob as YAML; secrets and unknown values by name."""
    return yaml.dump(
        _ordered(_plain(manifest, _WORDS)),
        Dumper=_Dumper,
        sort_keys=False,
        width=_WIDTH,
        allow_unicode=True,
    )


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
        api.admit(_plain(manifest, {UNKNOWN: _STAND_IN}))
    except ApiException as error:
        if error.status in _REFUSALS:
            raise RuntimeError(
                f"PyTorchJob {namespace}/{name} would be refused: {error_message(error)}"
            ) from error
        return f"the API server could not judge it: {error_message(error)}"
    except Unreachable:
        return "its API server does not answer, so it was not asked"
    except ConfigException as error:
        return f"its API server was not asked: {error}"
    return "the API server admits it"


def _ordered(value: Any) -> Any:
    """Return `value` in an order that stays: the engine knows none. A name comes first."""
    if isinstance(value, Mapping):
        keys = sorted(value, key=lambda key: (key != "name", key))
        return {key: _ordered(value[key]) for key in keys}
    return [_ordered(each) for each in value] if isinstance(value, list) else value


def _plain(value: Any, words: Mapping[Any, str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(each, words) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each, words) for each in value]
    return words.get(value, value) if isinstance(value, type(UNKNOWN) | type(SECRET)) else value


class _Dumper(yaml.SafeDumper):
    """Writes a text of several lines as such, so that a program can be read."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    )


_Dumper.add_representer(str, _text)
