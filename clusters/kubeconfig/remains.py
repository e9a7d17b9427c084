"""Find the objects that a destroyed stack left behind in an existing cluster."""

from collections.abc import Mapping

import pulumi
import urllib3
from kubernetes import client
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException

from clusters.cluster import JOBS, Remains
from clusters.kubeconfig.choice import Absent, choose, kubectl
from clusters.kubeconfig.look import get, owner, silence
from clusters.kubeconfig.settings import KubeconfigSettings
from core.kube import api_message, connect
from core.manifests import KEPT, MANAGED_BY
from core.toolchain import ToolMissing

_WHAT = "objects with Slipway's labels"
_UNKNOWN = "objects known to be in a cluster that could not be checked"
_LABELS = ",".join(f"{key}={value}" for key, value in MANAGED_BY.items())
_KINDS: Mapping[str, str] = {
    "pytorchjob": "/apis/kubeflow.org/v1",
    "pod": "/api/v1",
    "deployment": "/apis/apps/v1",
    "configmap": "/api/v1",
    "persistentvolumeclaim": "/api/v1",
}
"""The kinds of objects to search a namespace for, with their API paths."""


def remains(settings: KubeconfigSettings, stack: str) -> Remains:
    """Return the objects with Slipway's labels in the jobs' namespace, unless another stack's.

    If the cluster rejects this account, that is reported as something left. If the cluster is not
    responding or its context is missing, it was probably deleted, so nothing counts as left.
    """
    namespace = JOBS if settings.namespace is None else settings.namespace
    try:
        choice = choose(settings.path, settings.context, settings.kubeconfig)
    except Absent as error:
        return {f"{_UNKNOWN} ({error})": []}
    except (pulumi.RunError, ToolMissing) as error:
        see = _listing(kubectl(settings.path, settings.context), namespace)
        return {_WHAT: [f"the cluster could not be checked ({error}): run `{see}`"]}
    command = kubectl(choice.path, choice.context)
    try:
        api = connect(choice.kubeconfig)
        if (whose := owner(api, namespace)) not in {None, stack}:
            return {f"{_WHAT} that belong to it ({namespace} belongs to the stack {whose})": []}
        return _labeled(api, namespace, f"{command} --namespace {namespace}")
    except (ApiException, ConfigException, urllib3.exceptions.HTTPError) as error:
        see = _listing(command, namespace)
        if (why := silence(error)) is not None:
            again = f"if it responds again, run `{see}`"
            return {f"{_UNKNOWN} ({choice.server} is not responding: {why}; {again})": []}
        return {_WHAT: [f"{choice.server} can't be checked ({api_message(error)}): run `{see}`"]}


def _labeled(api: client.ApiClient, namespace: str, kubectl: str) -> Remains:
    """Return remaining objects, each with its removal command; kept claims are only mentioned."""
    left, kept = [], []
    for kind, root in _KINDS.items():
        # None means that the kind does not exist or can't be read.
        listed = get(api, f"{root}/namespaces/{namespace}/{kind}s", labelSelector=_LABELS)
        for each in listed["items"] if listed is not None else ():
            name, annotations = each["metadata"]["name"], each["metadata"].get("annotations")
            if (annotations or {}).get(KEPT) == "true":
                kept.append(name)
            else:
                left.append(f"{kind} {name}: {kubectl} delete {kind} {name}")
    what = _WHAT
    if kept:
        command = f"{kubectl} delete persistentvolumeclaim {' '.join(kept)}"
        what += f" except claims that are kept with their files (to remove these: `{command}`)"
    return {what: left}


def _listing(kubectl: str, namespace: str) -> str:
    """Return the command that lists the objects with Slipway's labels in a namespace."""
    kinds = ",".join(f"{kind}s" for kind in _KINDS)
    return f"{kubectl} --namespace {namespace} get {kinds} --selector {_LABELS}"
