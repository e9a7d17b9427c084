"""Look for training operators and Slipway's objects in a cluster, without changing anything.

`look` inspects the cluster before the stack uses it, and `remains` after the stack is destroyed.
"""

from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import pulumi
import tenacity
import urllib3
from kubernetes import client
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException

from clusters.cluster import JOB_ACCOUNT, JOBS, Remains
from clusters.kubeconfig.choice import Absent, Choice, Unusable, choose, kubectl
from clusters.kubeconfig.found import Deployed, Found
from clusters.kubeconfig.settings import KubeconfigSettings
from clusters.operator import CRD_PATH, NAME, NAMESPACE
from clusters.operator.operator_ready import judges
from core.kube import REFUSED, REQUEST_ERRORS, Request, api_message, ask, connect, is_busy
from core.manifests import KEPT, KEPT_CLAIM, MANAGED_BY, made_by
from core.toolchain import ToolMissing

_OPERATOR_LABEL = f"control-plane=kubeflow-{NAME}"
"""The Deployment's label in every release since 1.4
(https://github.com/kubeflow/training-operator/blob/v1.9.4/manifests/base/deployment.yaml)."""
_DEFAULT = "storageclass.kubernetes.io/is-default-class"
"""The annotation on the default StorageClass
(https://kubernetes.io/docs/concepts/storage/storage-classes/#default-storageclass)."""
_CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
_LIMIT = (3, 5)
"""Timeouts in seconds for connecting and for the response."""
_LEFT = "objects with Slipway's labels"
_UNKNOWN = "objects known to be in a cluster that could not be checked"
_OWN_LABELS = ",".join(f"{key}={value}" for key, value in MANAGED_BY.items())
_KINDS: Mapping[str, str] = {
    "pytorchjob": "/apis/kubeflow.org/v1",
    "pod": "/api/v1",
    "deployment": "/apis/apps/v1",
    "configmap": "/api/v1",
    "persistentvolumeclaim": "/api/v1",
}
"""The kinds of objects to search a namespace for, with their API paths."""


def look(choice: Choice, namespace: str) -> Found:
    """Inspect a cluster for jobs in `namespace`, or raise `Unusable` if it can't be reached."""
    try:
        return _found(connect(choice.kubeconfig), namespace)
    except ConfigException as error:
        raise Unusable("context", str(error)) from error
    except ApiException as error:
        whose = "all requests from this account" if error.status in REFUSED else "a request"
        raise Unusable("", f"{choice.server} rejects {whose}: {api_message(error)}") from error
    except urllib3.exceptions.HTTPError as error:
        raise Unusable("", _unreachable(choice, error)) from error


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
        return {_LEFT: [f"the cluster could not be checked ({error}): run `{see}`"]}
    command = kubectl(choice.path, choice.context)
    see = _listing(command, namespace)
    try:
        api = connect(choice.kubeconfig)
        whose = made_by(_get(api, f"/api/v1/namespaces/{namespace}"))
        # Another party's namespace may contain the stack's service account.
        whose = _account_made_by(api, namespace) if whose is None else whose
        if whose not in {None, stack}:
            return {f"{_LEFT} that belong to it ({namespace} belongs to the stack {whose})": []}
        return _labeled(api, namespace, f"{command} --namespace {namespace}")
    except (ApiException, ConfigException) as error:
        return {_LEFT: [f"{choice.server} can't be checked ({api_message(error)}): run `{see}`"]}
    except urllib3.exceptions.HTTPError as error:
        why = f"{' '.join(str(error).split())}; if it responds again, run `{see}`"
        return {f"{_UNKNOWN} ({choice.server} is not responding: {why})": []}


def _labeled(api: client.ApiClient, namespace: str, kubectl: str) -> Remains:
    """Return remaining objects, each with its removal command; kept claims are only mentioned."""
    left, kept = [], []
    for kind, root in _KINDS.items():
        # None means that the kind does not exist or can't be read.
        listed = _get(api, f"{root}/namespaces/{namespace}/{kind}s", labelSelector=_OWN_LABELS)
        for each in listed["items"] if listed is not None else ():
            name, annotations = each["metadata"]["name"], each["metadata"].get("annotations")
            if (annotations or {}).get(KEPT) == "true":
                kept.append(name)
            else:
                left.append(f"{kind} {name}: {kubectl} delete {kind} {name}")
    what = _LEFT
    if kept:
        command = f"{kubectl} delete persistentvolumeclaim {' '.join(kept)}"
        what += f" except claims that are kept with their files (to remove these: `{command}`)"
    return {what: left}


def _listing(kubectl: str, namespace: str) -> str:
    """Return the command that lists the objects with Slipway's labels in a namespace."""
    kinds = ",".join(f"{kind}s" for kind in _KINDS)
    return f"{kubectl} --namespace {namespace} get {kinds} --selector {_OWN_LABELS}"


def _get(api: client.ApiClient, path: str, **query: str) -> Any:
    """Return the object at a path, or None if it is missing or this account can't read it."""
    document = _read(api, path, **query)
    return None if isinstance(document, HTTPStatus) else document


def _unreachable(choice: Choice, error: Exception) -> str:
    why = " ".join(str(error).split())
    see = f"`{kubectl(choice.path, choice.context)} get --raw /version`"
    if "certificate verify failed" in why:
        return (
            f"{choice.server} does not identify itself as the cluster: {why}. Its certificate was "
            "not issued by the kubeconfig's certificate-authority: check that the server is the "
            f"right one, and that no proxy is responding in its place: {see}"
        )
    return (
        f"{choice.server} is not responding: {why}. Check that the cluster is up and this machine "
        f"can reach it (a VPN, a firewall's authorized addresses): {see}"
    )


@tenacity.retry(
    retry=tenacity.retry_if_exception_type(urllib3.exceptions.HTTPError)
    | tenacity.retry_if_exception(is_busy),
    stop=tenacity.stop_after_delay(10),
    wait=tenacity.wait_fixed(1),
    reraise=True,
)
def _found(api: client.ApiClient, namespace: str) -> Found:
    served = {group["name"] for group in ask(api, Request("GET", "/apis/"), limit=_LIMIT)["groups"]}
    homes = {name: _read(api, f"/api/v1/namespaces/{name}") for name in (namespace, NAMESPACE)}
    kinds = _get(api, "/apis/kubeflow.org/v1") if "kubeflow.org" in served else None
    serves = any(each["name"] == "pytorchjobs" for each in (kinds or {}).get("resources", ()))
    claim, judged = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{KEPT_CLAIM}", None
    with suppress(*REQUEST_ERRORS):  # The gate checks again, and waits.
        judged = judges(api, namespace) if serves else None
    classes, nodes = _get(api, "/apis/storage.k8s.io/v1/storageclasses"), _get(api, "/api/v1/nodes")
    return Found(
        serves,
        kubernetes=(_get(api, "/version") or {}).get("gitVersion"),
        trainer="trainer.kubeflow.org" in served,
        made_by=made_by(_get(api, CRD_PATH)),
        deployed=_deployed(api),
        judged=judged,
        namespaces={
            name: made_by(home) for name, home in homes.items() if not isinstance(home, HTTPStatus)
        },
        unseen=frozenset(name for name, home in homes.items() if home is HTTPStatus.FORBIDDEN),
        jobs_of=_account_made_by(api, namespace),
        default_class=None if classes is None else any(map(_is_default, classes["items"])),
        nodes=None if nodes is None else sum(map(_takes_jobs, nodes["items"])),
        claim_of=made_by(_get(api, claim)),
    )


def _is_default(storage_class: Mapping[str, Any]) -> bool:
    return (storage_class["metadata"].get("annotations") or {}).get(_DEFAULT) == "true"


def _takes_jobs(node: Mapping[str, Any]) -> bool:
    return all(taint["key"] != _CONTROL_PLANE for taint in node["spec"].get("taints") or ())


def _account_made_by(api: client.ApiClient, namespace: str) -> str | None:
    return made_by(_get(api, f"/api/v1/namespaces/{namespace}/serviceaccounts/{JOB_ACCOUNT}"))


def _deployed(api: client.ApiClient) -> tuple[Deployed, ...] | None:
    usual = _get(api, f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{NAME}")
    every = _get(api, "/apis/apps/v1/deployments", labelSelector=_OPERATOR_LABEL)
    if every is None and usual is None:
        return None
    operators: dict[str, Deployed] = {}
    for each in filter(None, [usual, *(every or {"items": ()})["items"]]):
        metadata = each["metadata"]
        container = each["spec"]["template"]["spec"]["containers"][0]
        operators[metadata["uid"]] = Deployed(
            metadata["namespace"],
            metadata["name"],
            container["image"],
            tuple(container.get("args") or ()),
            made_by(each),
        )
    return tuple(operators.values())


def _read(api: client.ApiClient, path: str, **query: str) -> Any:
    """Return the object at a path, or the HTTP status if it is missing or forbidden."""
    try:
        return ask(api, Request("GET", path, query), limit=_LIMIT)
    except ApiException as error:
        if error.status not in {HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND}:
            raise
        return HTTPStatus(error.status)
