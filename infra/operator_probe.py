"""Whether the training operator is ready: its webhook judges PyTorchJobs.

An available Deployment says less: the operator reports ready before it serves the webhook,
and the API server asks a webhook only once it has heard of it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import urllib3
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from infra.kube import connect, plain, said
from infra.operator_rights import CERTIFICATE, NAME, NAMESPACE
from infra.plugin.handler import Properties

_LIMITED: dict[str, Any] = {"_request_timeout": 5}


class NotReadyError(Exception):
    """What is missing, as seen just now."""


@dataclass(frozen=True)
class Operator:
    """The training operator of one cluster.

    Args:
        api: Connected to the cluster.
        deployment: The operator's Deployment, in namespace `kubeflow`.
        job_namespace: Where PyTorchJobs are tried.
    """

    api: client.ApiClient
    deployment: str
    job_namespace: str

    @classmethod
    def of(cls, inputs: Properties) -> "Operator":
        """Connect to the operator that a gate's inputs name."""
        return cls(connect(inputs["kubeconfig"]), inputs["deployment"], inputs["jobNamespace"])

    def probe(self) -> None:
        """Return when the operator is ready.

        Raises:
            NotReadyError: with what is missing.
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
            NotReadyError: there is no Secret, or no answer.
        """
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
        apps = client.AppsV1Api(self.api)
        found = plain(
            self.api, apps.read_namespaced_deployment(self.deployment, NAMESPACE, **_LIMITED)
        )
        wanted, status = found["spec"]["replicas"], found["status"]
        is_new = status.get("observedGeneration", 0) >= found["metadata"]["generation"]
        is_up = status.get("updatedReplicas", 0) == status.get("readyReplicas", 0) == wanted
        if not (is_new and is_up):
            raise NotReadyError(
                f"{status.get('readyReplicas', 0)} of {wanted} pods of Deployment "
                f"{NAMESPACE}/{self.deployment} are ready"
            )

    def _probe_webhook(self) -> None:
        """Try a good job, and one that nothing but the webhook refuses."""
        self._try(_job(container="pytorch"))
        try:
            self._try(_job(container="not-pytorch"))
        except ApiException as error:
            if "denied the request" not in said(error):
                raise
        else:
            raise NotReadyError("the API server does not ask the operator's webhook yet")

    def _try(self, job: dict[str, Any]) -> None:
        client.CustomObjectsApi(self.api).create_namespaced_custom_object(
            "kubeflow.org", "v1", self.job_namespace, "pytorchjobs", job, dry_run="All", **_LIMITED
        )


@contextmanager
def _not_ready_on_errors() -> Iterator[None]:
    try:
        yield
    except ApiException as error:
        raise NotReadyError(said(error)) from error
    except urllib3.exceptions.HTTPError as error:
        raise NotReadyError(f"the API server does not answer: {error}") from error


def _job(*, container: str) -> dict[str, Any]:
    """Return a PyTorchJob that the CRD allows; the webhook wants a container named pytorch."""
    template = {"spec": {"containers": [{"name": container, "image": "readiness-probe"}]}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "readiness-probe"},
        "spec": {"pytorchReplicaSpecs": {"Master": {"replicas": 1, "template": template}}},
    }
