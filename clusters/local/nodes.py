"""Whether a cluster's nodes are there and Ready, asked of its API server."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass

import tenacity
import urllib3.exceptions
from kubernetes import client, config

from core import kube
from core.context import Context

_LIMIT = (5, 10)
"""Seconds to connect, and to answer."""
_POLL_SECONDS = 1.0
_UNREACHABLE = (urllib3.exceptions.HTTPError, ssl.SSLError, OSError)


@dataclass(frozen=True)
class Problem:
    """Something that is the matter.

    Args:
        part: With which part of the cluster, in one word.
        reason: What.
    """

    part: str
    reason: str

    def __str__(self) -> str:
        return f"{self.part}: {self.reason}"


def problems(kubeconfig: str, expected: int | None) -> list[Problem]:
    """Return what is the matter with the nodes; nothing when all of them are Ready.

    Args:
        kubeconfig: Its content.
        expected: How many there have to be; None when that is somebody else's to say.
    """
    try:
        with kube.connect(kubeconfig) as api:
            nodes = kube.ask(api, kube.Request("GET", "/api/v1/nodes"), limit=_LIMIT)["items"]
    except client.ApiException as error:
        return [Problem("api", f"the API server answers: {kube.said(error)}")]
    except (*_UNREACHABLE, config.ConfigException) as error:
        return [Problem("api", f"the API server can't be reached: {error}")]
    matter = [] if nodes else [Problem("nodes", "there is none")]
    if expected is not None and nodes and len(nodes) < expected:
        matter.append(Problem("nodes", f"{len(nodes)} of {expected} are there"))
    for node in nodes:
        conditions = {each["type"]: each for each in node["status"].get("conditions", [])}
        ready = conditions.get("Ready", {"status": "False", "message": "has not reported yet"})
        if ready["status"] != "True":
            message = ready.get("message", "is not Ready")
            matter.append(Problem("nodes", f"{node['metadata']['name']}: {message}"))
    return matter


def identity(kubeconfig: str) -> str:
    """Return what tells this cluster from any other: the UID of its namespace kube-system.

    Raises:
        kubernetes.client.ApiException: the API server refuses to say.
        urllib3.exceptions.HTTPError: it can't be reached.
    """
    with kube.connect(kubeconfig) as api:
        asked = kube.Request("GET", "/api/v1/namespaces/kube-system")
        return str(kube.ask(api, asked, limit=_LIMIT)["metadata"]["uid"])


def wait(look: Callable[[], list[Problem]], limit: float, context: Context) -> None:
    """Wait until nothing is the matter.

    Args:
        look: Says what is.
        limit: Seconds.
        context: Where to say it meanwhile.

    Raises:
        TimeoutError: something still was, after `limit` seconds; with what.
        InterruptedError: the person pressed Ctrl-C.
    """

    def say(state: tenacity.RetryCallState) -> None:
        if state.outcome is not None:
            context.status(f"waiting: {state.outcome.result()[0]}")

    last = tenacity.Retrying(
        retry=tenacity.retry_if_result(bool),
        stop=tenacity.stop_any(
            tenacity.stop_after_delay(limit), tenacity.stop_when_event_set(context.cancelled)
        ),
        wait=tenacity.wait_fixed(_POLL_SECONDS),
        sleep=tenacity.sleep_using_event(context.cancelled),
        before_sleep=say,
        retry_error_callback=lambda state: state.outcome.result() if state.outcome else [],
    )(look)
    if last and context.cancelled.is_set():
        raise InterruptedError("interrupted while waiting for the cluster's nodes")
    if last:
        seen = "; ".join(map(str, last))
        raise TimeoutError(f"the cluster was not ready within {limit:.0f} s: {seen}")
