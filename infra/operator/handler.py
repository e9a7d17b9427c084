"""The resource `slipway:infra:OperatorReady`: what depends on it may submit PyTorchJobs.

The operator is ready when its webhook judges them. An available Deployment is not enough: the
operator reports ready before it serves the webhook, and the API server calls a webhook only once
it has observed its configuration.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import urllib3
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from clusters import late_roles
from clusters.operator_webhook import judges
from clusters.training_operator import NAME, NAMESPACE
from core.context import Context
from core.handler import Change, Handler, Properties
from core.kube import Request, api_message, ask, connect
from core.wait import NotYet, until
from infra.operator.diagnosis import explain
from infra.operator.manifests import CERTIFICATE
from jobs.run import submit

LIMIT_SECONDS = 120
_POLL_SECONDS = 0.5
_REQUEST_SECONDS = 5


class OperatorReadyHandler(Handler):
    """Waits until the operator is ready, and on every `up` looks whether it still is."""

    def drift(self, state: Properties, inputs: Properties, context: Context) -> list[Change]:
        try:
            Operator.of(inputs).probe()
        except NotYet:
            return [Change("existing" if "existing" in inputs else "deployment", drift=True)]
        return []

    def create(self, inputs: Properties, context: Context) -> tuple[str, Properties]:
        """Wait until the operator is ready.

        Raises:
            TimeoutError: after `LIMIT_SECONDS`, with what the cluster reports about the operator;
                later where a new role may be why its image is refused (`clusters.late_roles`).
            InterruptedError: the user pressed Ctrl-C.
        """
        operator = Operator.of(inputs)

        def attempt() -> None:
            operator.deliver_certificate()
            operator.probe()

        def wait(seconds: float) -> None:
            def overdue(missing: str) -> str:
                late = f"the training operator was not ready within {seconds:g} s: {missing}"
                return f"{late}\n{operator.explain()}"

            what = "the training operator"
            until(attempt, seconds, what, context, every=_POLL_SECONDS, overdue=overdue)

        try:
            wait(LIMIT_SECONDS)
        except TimeoutError as error:
            # Its image is the first one that nodes pull.
            if not late_roles.may_be(str(error)):
                raise
            context.warn(late_roles.ADVICE)
            wait(late_roles.SECONDS)
        return str(operator), {}

    def delete(self, state: Properties, context: Context) -> None:
        """Stop the runs that no state holds, while the operator still manages them.

        A shared namespace is left alone: the owner of its runs is unknown.
        """
        if not state.get("shared"):
            submit.stop_all(state["kubeconfig"], state["jobNamespace"], context)


@dataclass(frozen=True)
class Operator:
    """The training operator of one cluster.

    Args:
        api: Connected to the cluster.
        job_namespace: Where PyTorchJobs are tried.
        deployment: The operator's Deployment; None where this account may not read it.
        namespace: Where that is.
        judges: Whether it has a webhook for PyTorchJobs.
        own: Whether it is the stack's own; nothing of another one is changed.
    """

    api: client.ApiClient
    job_namespace: str
    deployment: str | None
    namespace: str
    judges: bool
    own: bool

    @classmethod
    def of(cls, inputs: Properties) -> "Operator":
        """Connect to the operator that a gate's inputs name."""
        own = "existing" not in inputs
        seen = {"deployment": inputs["deployment"], "judges": True} if own else inputs["existing"]
        return cls(
            connect(inputs["kubeconfig"]),
            inputs["jobNamespace"],
            seen.get("deployment"),
            seen.get("namespace", NAMESPACE),
            seen["judges"],
            own,
        )

    def __str__(self) -> str:
        return "PyTorchJobs" if self.deployment is None else f"{self.namespace}/{self.deployment}"

    def probe(self) -> None:
        """Return when the operator is ready: it is rolled out, and its webhook judges.

        Raises:
            NotYet: with what is missing.
        """
        with _not_ready_on_errors():
            self._probe_rollout()
            if not judges(self.api, self.job_namespace) and self.judges:
                raise NotYet("the API server does not ask the operator's webhook yet")

    def deliver_certificate(self) -> None:
        """Have the kubelet bring the webhook's certificate to the operator's pod now.

        The operator writes it to a Secret and waits for it in its own mounted file, which the
        kubelet brings up to date once a minute, or when the pod's annotations change
        (https://kubernetes.io/docs/concepts/configuration/configmap/#mounted-configmaps-are-updated-automatically).

        Raises:
            NotYet: the Secret is missing, or the API server does not answer.
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

    def explain(self) -> str:
        """Return what the cluster reports about it, or who knows more."""
        if self.deployment is None:
            return (
                "This account can't see its Deployment, so ask whoever has installed it; or see "
                "whether `kubectl get validatingwebhookconfigurations` lists one for PyTorchJobs"
            )
        return explain(self.api, self.namespace, self.deployment)

    def _probe_rollout(self) -> None:
        if self.deployment is None:
            return
        place = f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{self.deployment}"
        try:
            deployment = self._ask(Request("GET", place))
        except ApiException as error:
            if self.own or error.status != HTTPStatus.FORBIDDEN:
                raise
            return  # The webhook's own answer decides, and it is called next.
        replicas, status = deployment["spec"]["replicas"], deployment["status"]
        ready = status.get("readyReplicas", 0)
        is_new = status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
        # Of an existing operator one pod is enough: it may be rolled out at any time.
        is_up = status.get("updatedReplicas", 0) == ready == replicas if self.own else ready > 0
        if not (is_new and is_up):
            raise NotYet(f"{ready} of {replicas} pods of Deployment {self} are ready")

    def _ask(self, request: Request) -> Any:
        return ask(self.api, request, limit=_REQUEST_SECONDS)


@contextmanager
def _not_ready_on_errors() -> Iterator[None]:
    try:
        yield
    except ApiException as error:
        raise NotYet(api_message(error)) from error
    except urllib3.exceptions.HTTPError as error:
        raise NotYet(f"the API server does not answer: {error}") from error
