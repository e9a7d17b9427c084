"""The resource `slipway:infra:OperatorReady`, after which PyTorchJobs can be submitted.

The operator is ready only once its webhook validates PyTorchJobs; its pod becomes Ready earlier.
"""

from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import ClassVar

from kubernetes.client import ApiClient
from kubernetes.client.exceptions import ApiException

from clusters.cloud_reports import RefusedPulls
from clusters.operator import NAME, NAMESPACE
from core.context import Context
from core.handler import Change, Handler, Properties
from core.kube import ADMISSION, Request, api_message, ask, connect
from core.manifests import rendered
from core.rollout import REQUEST_SECONDS, Rollout, not_ready_on_errors
from core.wait import NotYet, until

LIMIT_SECONDS = 120
_POLL_SECONDS = 0.5


class OperatorReadyHandler(Handler):
    """Waits until the operator is ready; each `up` checks again."""

    passing_inputs: ClassVar[frozenset[str]] = frozenset({"refusedPulls"})

    def __init__(self, stop_runs: Callable[[str, str, Context], None]) -> None:
        self._stop_runs = stop_runs  # in one namespace: `jobs.run.submit.stop_all`

    def drift(self, state: Properties, inputs: Properties, context: Context) -> list[Change]:
        try:
            Operator(inputs).probe()
        except NotYet:
            return [Change("existing" if "existing" in inputs else "deployment", drift=True)]
        return []

    def create(self, inputs: Properties, context: Context) -> tuple[str, Properties]:
        """Wait until the operator is ready, for longer if its image can't be pulled yet."""
        operator = Operator(inputs)

        def attempt() -> None:
            operator.deliver_certificate()
            operator.probe()

        def wait(seconds: float) -> None:
            what, explain = "the training operator", operator.explain
            until(attempt, seconds, what, context, every=_POLL_SECONDS, explain=explain)

        try:
            wait(LIMIT_SECONDS)
        except TimeoutError as error:
            # The operator's image is the first one that nodes pull.
            pulls = RefusedPulls.from_inputs(inputs)
            if pulls is None or not pulls.may_be_admitted(str(error)):
                raise
            context.warn(pulls.advice)
            wait(pulls.seconds)
        return str(operator), {}

    def delete(self, state: Properties, context: Context) -> None:
        """While the operator can still stop runs, stop those that are not in any Pulumi state."""
        if not state.get("shared"):  # the owner of runs in a shared namespace is unknown
            self._stop_runs(state["kubeconfig"], state["jobNamespace"], context)


class Operator:
    """The training operator in a resource's inputs: the stack's own, or an existing one."""

    def __init__(self, inputs: Properties) -> None:
        self._api = connect(inputs["kubeconfig"])
        self._job_namespace = inputs["jobNamespace"]
        self._own = "existing" not in inputs
        existing = inputs.get("existing", {"deployment": inputs.get("deployment"), "judges": True})
        namespace, deployment = existing.get("namespace", NAMESPACE), existing.get("deployment")
        self._rollout = (
            None if deployment is None else Rollout(self._api, namespace, deployment, own=self._own)
        )
        self._judges = existing["judges"]

    def __str__(self) -> str:
        return "PyTorchJobs" if self._rollout is None else str(self._rollout)

    def probe(self) -> None:
        """Raise `NotYet` unless the operator is rolled out and its webhook is working."""
        with not_ready_on_errors():
            try:
                if self._rollout is not None:
                    self._rollout.probe()
            except ApiException as error:
                # If this account can't read the Deployment, only the webhook's response counts.
                if self._own or error.status != HTTPStatus.FORBIDDEN:
                    raise
            if not judges(self._api, self._job_namespace) and self._judges:
                raise NotYet("the API server is not calling the operator's webhook yet")

    def deliver_certificate(self) -> None:
        """Make the kubelet update the webhook's certificate in the operator's pod immediately.

        By default, it updates a mounted Secret once a minute, or when the pod's annotations change
        (https://kubernetes.io/docs/concepts/configuration/configmap/#mounted-configmaps-are-updated-automatically).
        """
        own = self._rollout
        if not self._own or own is None:
            return
        with not_ready_on_errors():
            secret = own.get("secrets/training-operator-webhook-cert")
            if not secret.get("data"):
                return
            version = secret["metadata"]["resourceVersion"]
            change = {"metadata": {"annotations": {"slipway.dev/certificate": version}}}
            for pod in own.get("pods", labelSelector=f"control-plane=kubeflow-{NAME}")["items"]:
                patch = Request("PATCH", own.path(f"pods/{pod['metadata']['name']}"), body=change)
                ask(self._api, patch, limit=REQUEST_SECONDS)

    def explain(self) -> str:
        """Describe the state of the Deployment and its pods, starting on a new line."""
        if self._rollout is None:
            return (
                "\nThis account can't read the operator's Deployment. Ask whoever installed it, or "
                "check whether `kubectl get validatingwebhookconfigurations` lists its webhook"
            )
        return self._rollout.explain()


def judges(api: ApiClient, namespace: str) -> bool:
    """Return whether a webhook rejects an invalid PyTorchJob that nothing else would reject.

    Submits a valid PyTorchJob and the invalid one as dry runs, which create nothing.

    Raises:
        ApiException: The valid one was rejected, or something else rejected the invalid one.
    """
    _try(api, namespace, container="pytorch")
    try:
        _try(api, namespace, container="not-pytorch")
    except ApiException as error:
        if "denied the request" not in api_message(error):
            raise
        return True
    return False


def _try(api: ApiClient, namespace: str, *, container: str) -> None:
    (job,) = rendered(Path(__file__).with_name("probe.yaml"), container=container)
    path = f"/apis/kubeflow.org/v1/namespaces/{namespace}/pytorchjobs"
    ask(api, Request("POST", path, {"dryRun": "All"}, job), limit=ADMISSION)
