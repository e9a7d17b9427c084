"""Inspects what runs PyTorchJobs in a cluster. Nothing is changed.

What every account may read comes first: which APIs are served. The rest it may or may not see.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar

import tenacity
import urllib3
from kubernetes import client
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException

from clusters.cluster import JOB_ACCOUNT
from clusters.existing.kubeconfig import Choice, Unusable
from clusters.existing.webhook import judges
from clusters.training_operator import NAME, NAMESPACE
from core.kube import api_message, connect, plain
from core.manifests import MADE_BY

Answer = TypeVar("Answer")

_LABEL = f"control-plane=kubeflow-{NAME}"
"""On the Deployment of every release since 1.4
(https://github.com/kubeflow/training-operator/blob/v1.9.4/manifests/base/deployment.yaml)."""
_LIMITED: dict[str, Any] = {"_request_timeout": (3, 5)}
_RETRY_SECONDS = 10
_UNSEEN = frozenset({HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND})


@dataclass(frozen=True)
class Deployed:
    """A training operator's Deployment.

    Args:
        namespace: Where it is.
        name: What it is called.
        image: What it runs.
        args: How.
        made_by: The stack that has installed it; None for another party.
    """

    namespace: str
    name: str
    image: str
    args: tuple[str, ...] = ()
    made_by: str | None = None


@dataclass(frozen=True)
class Found:
    """What a cluster has, as far as the account may see it.

    Args:
        serves: Whether the API server serves PyTorchJobs.
        trainer: Whether it serves the TrainJobs of Kubeflow Trainer 2.
        made_by: The stack that has installed the operator; None when it is another party's, or
            is unknown.
        deployed: Operators; None when that is unknown.
        judged: Whether a webhook judges PyTorchJobs; None when that can't be tried, since
            the namespace does not exist yet, for one.
        namespaces: The existing ones, of the jobs' and the operator's, each with the stack
            that has made it; None for another party. Those that can't be seen are missing.
        unseen: Which of the two can't be seen.
        jobs_of: The stack whose jobs' account is in their namespace; None when there is none, or it
            is unknown.
    """

    serves: bool = False
    trainer: bool = False
    made_by: str | None = None
    deployed: tuple[Deployed, ...] | None = None
    judged: bool | None = None
    namespaces: Mapping[str, str | None] = field(default_factory=dict)
    unseen: frozenset[str] = frozenset()
    jobs_of: str | None = None


def look(choice: Choice, namespace: str) -> Found:
    """Return what a cluster has.

    Args:
        choice: Of which one, and as whom.
        namespace: Where jobs are to run.

    Raises:
        Unusable: the cluster does not answer within seconds, or refuses this account.
    """
    try:
        api = connect(choice.kubeconfig)
        groups = _retried(lambda: client.ApisApi(api).get_api_versions(**_LIMITED))
        served = {group["name"] for group in plain(api, groups)["groups"]}
        return _found(api, namespace, served)
    except ConfigException as error:
        raise Unusable("context", str(error)) from error
    except (ApiException, urllib3.exceptions.HTTPError) as error:
        if (why := silence(error)) is not None:
            raise Unusable("", _unreachable(choice, why)) from error
        text = f"{choice.server} lets this account do nothing: {_refusal(error)}"
        raise Unusable("", text) from error


def owner(api: client.ApiClient, namespace: str) -> str | None:
    """Return the stack that has made a namespace, or its jobs' account; None when none has."""
    core = client.CoreV1Api(api)
    made = _stack(_mark(partial(core.read_namespace, namespace, **_LIMITED)))
    account = partial(core.read_namespaced_service_account, JOB_ACCOUNT, namespace, **_LIMITED)
    return _stack(_mark(account)) if made is None else made


def _unreachable(choice: Choice, why: str) -> str:
    see = f"`{choice.kubectl} get --raw /version`"
    if "certificate verify failed" in why:
        return (
            f"{choice.server} does not answer as that cluster: {why}. Its certificate is not one "
            "of the kubeconfig's certificate-authority: see whether the server is the right one, "
            f"and whether a proxy answers in its place: {see}"
        )
    return (
        f"{choice.server} does not answer: {why}. See whether the cluster is up and this machine "
        f"reaches it (a VPN, a firewall's authorized addresses): {see}"
    )


def silence(error: Exception) -> str | None:
    """Return why a cluster does not answer; None where it does, even with an error."""
    if isinstance(error, urllib3.exceptions.HTTPError):
        return " ".join(str(error).split())
    if isinstance(error, ApiException) and not error.status:  # A failed TLS handshake.
        return " ".join(str(error.reason).split())
    return None


def _found(api: client.ApiClient, namespace: str, served: set[str]) -> Found:
    core, definitions = client.CoreV1Api(api), client.ApiextensionsV1Api(api)
    homes = {
        name: _mark(partial(core.read_namespace, name, **_LIMITED))
        for name in (namespace, NAMESPACE)
    }
    serves = "kubeflow.org" in served and _serves(api)
    name = "pytorchjobs.kubeflow.org"
    mark = _mark(lambda: definitions.read_custom_resource_definition(name, **_LIMITED))
    account = partial(core.read_namespaced_service_account, JOB_ACCOUNT, namespace, **_LIMITED)
    return Found(
        serves,
        trainer="trainer.kubeflow.org" in served,
        made_by=_stack(mark),
        deployed=_deployed(api),
        judged=_judged(api, namespace) if serves else None,
        namespaces={name: mark for name, mark in homes.items() if not isinstance(mark, HTTPStatus)},
        unseen=frozenset(name for name, mark in homes.items() if mark is HTTPStatus.FORBIDDEN),
        jobs_of=_stack(_mark(account)),
    )


def _serves(api: client.ApiClient) -> bool:
    objects = client.CustomObjectsApi(api)
    found = _seen(lambda: objects.get_api_resources("kubeflow.org", "v1", **_LIMITED))
    if isinstance(found, HTTPStatus):
        return False
    return any(each["name"] == "pytorchjobs" for each in plain(api, found)["resources"])


def _mark(ask: Callable[[], Any]) -> str | HTTPStatus | None:
    """Return which stack has made an object, or why that can't be seen."""
    found = _seen(ask)
    if isinstance(found, HTTPStatus):
        return found
    return _made_by(found)


def _made_by(thing: Any) -> str | None:
    mark = (thing.metadata.annotations or {}).get(MADE_BY)
    return None if mark is None else str(mark)


def _stack(mark: str | HTTPStatus | None) -> str | None:
    return None if isinstance(mark, HTTPStatus) else mark


def _deployed(api: client.ApiClient) -> tuple[Deployed, ...] | None:
    apps = client.AppsV1Api(api)
    every = _seen(
        lambda: apps.list_deployment_for_all_namespaces(label_selector=_LABEL, **_LIMITED)
    )
    usual = _seen(lambda: apps.read_namespaced_deployment(NAME, NAMESPACE, **_LIMITED))
    known = [] if isinstance(usual, HTTPStatus) else [usual]
    if isinstance(every, HTTPStatus):
        return tuple(map(_plain, known)) or None
    others = [each for each in every.items if each.metadata.uid not in _uids(known)]
    return tuple(map(_plain, known + others))


def _judged(api: client.ApiClient, namespace: str) -> bool | None:
    try:
        return judges(api, namespace)
    except ApiException:
        return None  # The gate checks again, and waits.


def _plain(deployment: Any) -> Deployed:
    (container, *_) = deployment.spec.template.spec.containers
    metadata = deployment.metadata
    args, made_by = tuple(container.args or ()), _made_by(deployment)
    return Deployed(metadata.namespace, metadata.name, container.image, args, made_by)


def _uids(deployments: list[Any]) -> set[str]:
    return {each.metadata.uid for each in deployments}


def _seen(ask: Callable[[], Answer]) -> Any:
    """Return the answer, or the status of one that the account may not have."""
    try:
        return ask()
    except ApiException as error:
        if error.status not in _UNSEEN:
            raise
        return HTTPStatus(error.status)


def _retried(ask: Callable[[], Answer]) -> Answer:
    return tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(urllib3.exceptions.HTTPError),
        stop=tenacity.stop_after_delay(_RETRY_SECONDS),
        wait=tenacity.wait_fixed(1),
        reraise=True,
    )(ask)


def _refusal(error: Exception) -> str:
    if not isinstance(error, ApiException):
        return str(error)
    message = api_message(error)
    if error.status == HTTPStatus.UNAUTHORIZED:
        return f"{message}; its credentials have expired or are not known there, log in anew"
    return message
