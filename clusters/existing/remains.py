"""What a stack has left in a cluster that stays, as the cluster itself lists it."""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

import pulumi
import urllib3
from kubernetes import client
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException

from clusters.cluster import JOBS
from clusters.existing.kubeconfig import Absent, choose, kubectl
from clusters.existing.look import owner, silence
from clusters.existing.settings import Settings
from core.kube import api_message, connect, plain
from core.manifests import KEPT, MANAGED_BY
from core.toolchain import ToolMissing

_KIND = "objects with Slipway's labels"
_UNKNOWN = "objects known to be in a cluster that could not be checked"
_LABELS = ",".join(f"{key}={value}" for key, value in MANAGED_BY.items())
_LIMITED: dict[str, Any] = {"_request_timeout": (3, 10)}
_UNSEEN = frozenset({HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND})


def remains(
    settings: Settings, stack: str, environment: Mapping[str, str]
) -> Mapping[str, list[str]]:
    """Return what bears Slipway's labels in the namespace of the stack's jobs.

    Where a mark shows that the namespace is another stack's, everything in it is that one's. A
    cluster that refuses this account may hold anything, which is reported instead. One that does
    not answer at all, or that no context leads to, may have gone for good: as `pulumi destroy`
    comes before, nothing is known to be in it, and the kind's name notes that it was not checked.
    """
    namespace = JOBS if settings.namespace is None else settings.namespace
    try:
        choice = choose(settings.path, settings.context, environment)
    except Absent as error:
        return {f"{_UNKNOWN} ({error})": []}
    except (pulumi.RunError, ToolMissing) as error:
        see = _command(kubectl(settings.path, settings.context), namespace)
        return {_KIND: [f"the cluster could not be checked ({error}): see `{see}`"]}
    try:
        api = connect(choice.kubeconfig)
        if (whose := owner(api, namespace)) not in {None, stack}:
            return {f"{_KIND} of its own ({namespace} is the stack {whose}'s)": []}
        left, kept = _labeled(api, namespace, choice.kubectl)
        return {_KIND + _kept_claims(kept, f"{choice.kubectl} --namespace {namespace}"): left}
    except (ApiException, ConfigException, urllib3.exceptions.HTTPError) as error:
        see = _command(choice.kubectl, namespace)
        if (why := silence(error)) is not None:
            again = f"should it do so again, see `{see}`"
            return {f"{_UNKNOWN} ({choice.server} does not answer: {why}; {again})": []}
        reason = api_message(error) if isinstance(error, ApiException) else error
        return {_KIND: [f"{choice.server} can't be checked ({reason}): see `{see}`"]}


def _labeled(api: client.ApiClient, namespace: str, kubectl: str) -> tuple[list[str], list[str]]:
    """Return what is left with how to remove it, and the names of the claims that are kept."""
    core, objects = client.CoreV1Api(api), client.CustomObjectsApi(api)
    named = {"namespace": namespace, "label_selector": _LABELS, **_LIMITED}
    lists: dict[str, Callable[[], Any]] = {
        "pytorchjob": lambda: objects.list_namespaced_custom_object(
            "kubeflow.org", "v1", plural="pytorchjobs", **named
        ),
        "pod": lambda: core.list_namespaced_pod(**named),
        "configmap": lambda: core.list_namespaced_config_map(**named),
        "persistentvolumeclaim": lambda: core.list_namespaced_persistent_volume_claim(**named),
    }
    left, kept = [], []
    for kind, listed in lists.items():
        for metadata in _found(api, listed):
            name = str(metadata["name"])
            if (metadata.get("annotations") or {}).get(KEPT) == "true":
                kept.append(name)
            else:
                left.append(
                    f"{kind} {name}: {kubectl} --namespace {namespace} delete {kind} {name}"
                )
    return left, kept


def _kept_claims(kept: list[str], kubectl: str) -> str:
    if not kept:
        return ""
    command = f"{kubectl} delete persistentvolumeclaim {' '.join(kept)}"
    return f" but for claims that are kept with their files (`{command}` removes them)"


def _found(api: client.ApiClient, listed: Callable[[], Any]) -> list[Mapping[str, Any]]:
    """Return the metadata in a list; none of a kind that does not exist, or may not be seen."""
    try:
        return [each["metadata"] for each in plain(api, listed())["items"]]
    except ApiException as error:
        if error.status not in _UNSEEN:
            raise
        return []


def _command(kubectl: str, namespace: str) -> str:
    kinds = "pytorchjobs,pods,configmaps,persistentvolumeclaims"
    return f"{kubectl} --namespace {namespace} get {kinds} --selector {_LABELS}"
