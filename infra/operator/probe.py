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

from clusters.existing.webhook import judges
from clusters.training_operator import NAME, NAMESPACE
from core.handler import Properties
from core.kube import Request, ask, connect, said
from core.wait import NotYet
from infra.operator.rights import CERTIFICATE

_LIMIT_SECONDS = 5


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
            inside = f"/api/v1/namespaces/{NAMESPACE}"
            secret = self._ask(Request("GET", f"{inside}/secrets/{CERTIFICATE}"))
            if not secret.get("data"):
                return
            version = secret["metadata"]["resourceVersion"]
            change = {"metadata": {"annotations": {"slipway.dev/certificate": version}}}
            selector = {"labelSelector": f"control-plane=kubeflow-{NAME}"}
            for pod in self._ask(Request("GET", f"{inside}/pods", selector))["items"]:
                place = f"{inside}/pods/{pod['metadata']['name']}"
                self._ask(Request("PATCH", place, body=change))

    def _probe_rollout(self) -> None:
        if self.deployment is None:
            return
        place = f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{self.deployment}"
        try:
            deployment = self._ask(Request("GET", place))
        except ApiException as error:
            if self.own or error.status != HTTPStatus.FORBIDDEN:
                raise
            return  # What it answers counts, and it is asked next.
        wanted, status = deployment["spec"]["replicas"], deployment["status"]
        ready = status.get("readyReplicas", 0)
        is_new = status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
        # Of somebody else's one is enough: it may be about to get a new pod at any time.
        is_up = status.get("updatedReplicas", 0) == ready == wanted if self.own else ready > 0
        if not (is_new and is_up):
            raise NotYet(f"{ready} of {wanted} pods of Deployment {self} are ready")

    def _ask(self, request: Request) -> Any:
        return ask(self.api, request, limit=_LIMIT_SECONDS)

    def _probe_webhook(self) -> None:
        """Try a good job, and one that nothing but the webhook refuses."""
        if not judges(self.api, self.job_namespace) and self.judges:
            raise NotYet("the API server does not ask the operator's webhook yet")


@contextmanager
def _not_ready_on_errors() -> Iterator[None]:
    try:
        yield
    except ApiException as error:
        raise NotYet(said(error)) from error
    except urllib3.exceptions.HTTPError as error:
        raise NotYet(f"the API server does not answer: {error}") from error
