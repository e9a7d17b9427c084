"""Whether the training operator is ready: its webhook judges PyTorchJobs.

An available Deployment says less: the operator reports ready before it serves the webhook,
and the API server asks a webhook only once it has heard of it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import urllib3
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from infra.kube import connect, plain, said
from infra.operator_rights import CERTIFICATE, NAME, NAMESPACE
from infra.patience import NotYet
from infra.plugin.handler import Properties

_LIMITED: dict[str, Any] = {"_request_timeout": 5}


@dataclass(frozen=True)
class Operator:
    """The training operator of one cluster.

    Args:
        api: Connected to the cluster.
        job_namespace: Where PyTorchJobs are tried.
        deployment: The operator's Deployment; None where nobody lets us see it.
        namespace: Where that is.
        judges: Whether it has a webhook for PyTorchJobs.
        own: Whether it is the stack's own; nothing of another one is changed.
    """

    api: client.ApiClient
    job_namespace: str
    deployment: str | None
    namespace: str = NAMESPACE
    judges: bool = True
    own: bool = True

    @classmethod
    def of(cls, inputs: Properties) -> "Operator":
        """Connect to the operator that a gate's inputs name."""
        api, jobs = connect(inputs["kubeconfig"]), inputs["jobNamespace"]
        existing = inputs.get("existing")
        if existing is None:
            return cls(api, jobs, inputs["deployment"])
        return cls(
            api,
            jobs,
            existing.get("deployment"),
            existing.get("namespace", NAMESPACE),
            judges=existing["judges"],
            own=False,
        )

    def __str__(self) -> str:
        return "PyTorchJobs" if self.deployment is None else f"{self.namespace}/{self.deployment}"

    def probe(self) -> None:
        """Return when the operator is ready.

        Raises:
            NotYet: with what is missing.
        """
        with _not_ready_on_errors():
            self._probe_rollout()
            self._probe_webhook()

    def deliver_certificate(self) -> None:
        """Have the kubelet bring the webhook's certificate to the operator's pod now.

        The operator writes it to a Secret and waits for it in its own mounted file, which the
        kubelet brings up to date once a minute, or when the pod's annotations change
        (https://kubernetes.io/docs/concepts/configuration/configmap/#mounted-configmaps-are-updated-automatically).

        Raises:
            NotYet: there is no Secret, or no answer.
        """
        if not self.own:
            return
        with _not_ready_on_errors():
            core = client.CoreV1Api(self.api)
            secret = plain(
                self.api, core.read_namespaced_secret(CERTIFICATE, NAMESPACE, **_LIMITED)
            )
            if not secret.get("data"):
                return
            version = secret["metadata"]["resourceVersion"]
            change = {"metadata": {"annotations": {"slipway.dev/certificate": version}}}
            selector = f"control-plane=kubeflow-{NAME}"
            pods = core.list_namespaced_pod(NAMESPACE, label_selector=selector, **_LIMITED)
            for pod in plain(self.api, pods)["items"]:
                core.patch_namespaced_pod(pod["metadata"]["name"], NAMESPACE, change, **_LIMITED)

    def _probe_rollout(self) -> None:
        if self.deployment is None:
            return
        apps = client.AppsV1Api(self.api)
        try:
            found = apps.read_namespaced_deployment(self.deployment, self.namespace, **_LIMITED)
        except ApiException as error:
            if self.own or error.status != HTTPStatus.FORBIDDEN:
                raise
            return  # What it answers counts, and it is asked next.
        deployment = plain(self.api, found)
        wanted, status = deployment["spec"]["replicas"], deployment["status"]
        ready = status.get("readyReplicas", 0)
        is_new = status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
        # Of somebody else's one is enough: it may be about to get a new pod at any time.
        is_up = status.get("updatedReplicas", 0) == ready == wanted if self.own else ready > 0
        if not (is_new and is_up):
            raise NotYet(f"{ready} of {wanted} pods of Deployment {self} are ready")

    def _probe_webhook(self) -> None:
        """Try a good job, and one that nothing but the webhook refuses."""
        if not judges(self.api, self.job_namespace) and self.judges:
            raise NotYet("the API server does not ask the operator's webhook yet")


def judges(api: client.ApiClient, namespace: str) -> bool:
    """Return whether a webhook refuses a PyTorchJob that nothing else refuses, and a good one not.

    Raises:
        ApiException: the good one is refused, or the other by somebody else.
    """
    _try(api, namespace, _job(container="pytorch"))
    try:
        _try(api, namespace, _job(container="not-pytorch"))
    except ApiException as error:
        if "denied the request" not in said(error):
            raise
        return True
    return False


def _try(api: client.ApiClient, namespace: str, job: dict[str, Any]) -> None:
    client.CustomObjectsApi(api).create_namespaced_custom_object(
        "kubeflow.org", "v1", namespace, "pytorchjobs", job, dry_run="All", **_LIMITED
    )


@contextmanager
def _not_ready_on_errors() -> Iterator[None]:
    try:
        yield
    except ApiException as error:
        raise NotYet(said(error)) from error
    except urllib3.exceptions.HTTPError as error:
        raise NotYet(f"the API server does not answer: {error}") from error


def _job(*, container: str) -> dict[str, Any]:
    """Return a PyTorchJob that the CRD allows; the webhook wants a container named pytorch."""
    template = {"spec": {"containers": [{"name": container, "image": "readiness-probe"}]}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "readiness-probe"},
        "spec": {"pytorchReplicaSpecs": {"Master": {"replicas": 1, "template": template}}},
    }
