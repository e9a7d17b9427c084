"""A local cluster's kubeconfig, and its nodes as its API server reports them."""

import base64
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import urllib3.exceptions
import yaml
from kubernetes import client, config

from core import kube
from core.context import Context
from core.problem import Problem
from core.wait import NotYet, until

_LIMIT = (5, 10)
"""Seconds to connect, and to answer."""
_POLL_SECONDS = 1.0
_FILES = ("certificate-authority", "client-certificate", "client-key")
_UNREACHABLE = (urllib3.exceptions.HTTPError, ssl.SSLError, OSError)


def problems(kubeconfig: str, expected: int | None) -> list[Problem]:
    """Return the nodes' problems; none when all of them are Ready.

    Args:
        kubeconfig: Its content.
        expected: The required number; None when that is not ours to decide.
    """
    try:
        with kube.connect(kubeconfig) as api:
            nodes = kube.ask(api, kube.Request("GET", "/api/v1/nodes"), limit=_LIMIT)["items"]
    except client.ApiException as error:
        return [Problem("api", f"the API server answers: {kube.api_message(error)}")]
    except (*_UNREACHABLE, config.ConfigException) as error:
        return [Problem("api", f"the API server can't be reached: {error}")]
    found = [] if nodes else [Problem("nodes", "there is none")]
    if expected is not None and nodes and len(nodes) < expected:
        found.append(Problem("nodes", f"{len(nodes)} of {expected} are there"))
    for node in nodes:
        conditions = {each["type"]: each for each in node["status"].get("conditions", [])}
        ready = conditions.get("Ready", {"status": "False", "message": "has not reported yet"})
        if ready["status"] != "True":
            message = ready.get("message", "is not Ready")
            found.append(Problem("nodes", f"{node['metadata']['name']}: {message}"))
    return found


def identity(kubeconfig: str) -> str:
    """Return what identifies this cluster: the UID of its namespace kube-system.

    Raises:
        kubernetes.client.ApiException: the API server refuses it.
        urllib3.exceptions.HTTPError: it can't be reached.
    """
    with kube.connect(kubeconfig) as api:
        request = kube.Request("GET", "/api/v1/namespaces/kube-system")
        return str(kube.ask(api, request, limit=_LIMIT)["metadata"]["uid"])


def wait(look: Callable[[], list[Problem]], limit: float, context: Context) -> None:
    """Wait until no problem is left.

    Args:
        look: Returns the problems.
        limit: Seconds.
        context: Where to show them meanwhile.

    Raises:
        TimeoutError: one was left after `limit` seconds; names it.
        InterruptedError: the user pressed Ctrl-C.
    """

    def ready() -> None:
        if found := look():
            raise NotYet("; ".join(map(str, found)))

    until(
        ready,
        limit,
        "the cluster's nodes",
        context,
        every=_POLL_SECONDS,
        overdue=lambda found: f"the cluster was not ready within {limit:.0f} s: {found}",
    )


def reduced(text: str, context: str) -> str:
    """Return the kubeconfig of one context with what it takes to connect, its files in it.

    What tools note besides, such as when they wrote it, would look like a change on every `up`.

    Args:
        text: As the tool wrote it.
        context: Which of its contexts.

    Raises:
        ValueError: it has no such context.
        OSError: a file that it names can't be read.
    """
    document = yaml.safe_load(text) or {}
    pair = _entry(document, "contexts", "context", context)
    cluster = _embedded(_entry(document, "clusters", "cluster", pair["cluster"]))
    user = _embedded(_entry(document, "users", "user", pair["user"]))
    return kube.kubeconfig(context, cluster, user)


def _entry(document: Mapping[str, Any], section: str, part: str, name: str) -> dict[str, Any]:
    entries = document.get(section) or []
    found = next((each[part] for each in entries if each["name"] == name), None)
    if found is None:
        names = ", ".join(str(each["name"]) for each in entries) or "none"
        raise ValueError(f"the kubeconfig has no {part} {name!r}; there is: {names}")
    return dict(found)


def _embedded(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry whose files are in it, without the notes of tools."""
    kept = {key: value for key, value in entry.items() if key not in {*_FILES, "extensions"}}
    for name in _FILES:
        if name in entry:
            kept[f"{name}-data"] = base64.b64encode(Path(entry[name]).read_bytes()).decode()
    return kept
