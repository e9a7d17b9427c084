"""What a stack has left in a cluster that stays: asked of the cluster itself."""

from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any

import pulumi
import urllib3
from kubernetes import client
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException

from clusters.cluster import JOBS
from clusters.existing.choice import choose
from clusters.existing.settings import Settings
from infra.kube import connect, plain, said
from infra.toolchain import ToolMissing
from jobs.spec.names import MANAGED_BY

_KIND = "objects with Slipway's labels"
_LABELS = ",".join(f"{key}={value}" for key, value in MANAGED_BY.items())
_LIMITED: dict[str, Any] = {"_request_timeout": (3, 10)}
_UNSEEN = frozenset({HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND})


def remains(settings: Settings, environment: Mapping[str, str]) -> Mapping[str, list[str]]:
    """Return what bears Slipway's labels in the namespace of the stack's jobs.

    Other stacks that use the same namespace have theirs there, too: nobody can tell whose they
    are. A cluster that can't be asked may hold anything, and that is told instead.
    """
    namespace = JOBS if settings.namespace is None else settings.namespace
    try:
        choice = choose(settings.path, settings.context, environment)
    except (pulumi.RunError, ToolMissing) as error:
        return {_KIND: [f"the cluster was not asked ({error}): see `{_command(namespace, '')}`"]}
    context = f" --context {choice.context}"
    try:
        return {_KIND: list(_labeled(connect(choice.kubeconfig), namespace, context))}
    except (ApiException, ConfigException, urllib3.exceptions.HTTPError) as error:
        reason = said(error) if isinstance(error, ApiException) else error
        command = _command(namespace, context)
        return {_KIND: [f"{choice.server} can't be asked ({reason}): see `{command}`"]}


def _labeled(api: client.ApiClient, namespace: str, context: str) -> Iterator[str]:
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
    for kind, listed in lists.items():
        for name in _names(api, listed):
            yield f"{kind} {name}: kubectl{context} --namespace {namespace} delete {kind} {name}"


def _names(api: client.ApiClient, listed: Callable[[], Any]) -> list[str]:
    """Return the names in a list; none of a kind that is not there, or that may not be seen."""
    try:
        return [str(each["metadata"]["name"]) for each in plain(api, listed())["items"]]
    except ApiException as error:
        if error.status not in _UNSEEN:
            raise
        return []


def _command(namespace: str, context: str) -> str:
    kinds = "pytorchjobs,pods,configmaps,persistentvolumeclaims"
    return f"kubectl{context} --namespace {namespace} get {kinds} --selector {_LABELS}"
