"""The resource `slipway:infra:OperatorReady`: what depends on it may submit PyTorchJobs.

The operator is ready when its webhook judges them. An available Deployment is not enough: the
operator reports ready before it serves the webhook, and the API server calls a webhook only once
it has observed its configuration.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from clusters import late_roles
from clusters.operator_webhook import judges
from clusters.training_operator import NAME, NAMESPACE
from core.context import Context
from core.handler import Change, Handler, Properties
from core.kube import Request, api_message, ask, connect, send
from core.manifests import troubles
from core.wait import NotYet, until
from jobs.run import submit

LIMIT_SECONDS = 120
_POLL_SECONDS = 0.5
_REQUEST_SECONDS = 5
_LOG_LINES = 20
_EVENTS = 10
_CERTIFICATE = "training-operator-webhook-cert"
"""The Secret that the operator fills with its webhook's certificate."""


class OperatorReadyHandler(Handler):
    """Waits until the operator is ready, and on every `up` looks whether it still is."""

    def drift(self, state: Properties, inputs: Properties, context: Context) -> list[Change]:
        try:
            Operator(inputs).probe()
        except NotYet:
            return [Change("existing" if "existing" in inputs else "deployment", drift=True)]
        return []

    def create(self, inputs: Properties, context: Context) -> tuple[str, Properties]:
        """Wait until the operator is ready; longer where a new role may keep its image away."""
        operator = Operator(inputs)

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


class Operator:
    """The training operator that a gate's inputs name: the stack's own, or an existing one.

    Nothing of an existing one is changed, and this account may not see its Deployment.
    """

    def __init__(self, inputs: Properties) -> None:
        self._api = connect(inputs["kubeconfig"])
        self._job_namespace = inputs["jobNamespace"]
        self._own = "existing" not in inputs
        seen = inputs.get("existing", {"deployment": inputs.get("deployment"), "judges": True})
        self._deployment = seen.get("deployment")
        self._namespace = seen.get("namespace", NAMESPACE)
        self._judges = seen["judges"]

    def __str__(self) -> str:
        return (
            "PyTorchJobs" if self._deployment is None else f"{self._namespace}/{self._deployment}"
        )

    def probe(self) -> None:
        """Raise `NotYet` unless the operator is rolled out, and its webhook judges."""
        with _not_ready_on_errors():
            self._probe_rollout()
            if not judges(self._api, self._job_namespace) and self._judges:
                raise NotYet("the API server does not ask the operator's webhook yet")

    def deliver_certificate(self) -> None:
        """Have the kubelet bring the webhook's certificate to the operator's pod now.

        The operator writes it to a Secret and waits for it in its own mounted file, which the
        kubelet brings up to date once a minute, or when the pod's annotations change
        (https://kubernetes.io/docs/concepts/configuration/configmap/#mounted-configmaps-are-updated-automatically).
        """
        if not self._own:
            return
        with _not_ready_on_errors():
            secret = self._get(f"secrets/{_CERTIFICATE}")
            if not secret.get("data"):
                return
            version = secret["metadata"]["resourceVersion"]
            change = {"metadata": {"annotations": {"slipway.dev/certificate": version}}}
            for pod in self._get("pods", labelSelector=f"control-plane=kubeflow-{NAME}")["items"]:
                patch = Request("PATCH", self._path(f"pods/{pod['metadata']['name']}"), body=change)
                ask(self._api, patch, limit=_REQUEST_SECONDS)

    def explain(self) -> str:
        """Return what the Deployment and its pods show, or why it can't be read."""
        if self._deployment is None:
            return (
                "This account can't see its Deployment, so ask whoever has installed it; or see "
                "whether `kubectl get validatingwebhookconfigurations` lists one for PyTorchJobs"
            )
        try:
            found = self._rollout()
            labels = found["spec"]["selector"]["matchLabels"]
            selector = ",".join(f"{key}={value}" for key, value in labels.items())
            pods = self._get("pods", labelSelector=selector)["items"]
            events = self._get("events")["items"]
        except (ApiException, HTTPError) as error:
            return f"Deployment {self} can't be read: {api_message(error)}"
        lines = [
            f"Deployment {self}: {each['type']}={each['status']}, {each.get('message', '')}"
            for each in found["status"].get("conditions", [])
        ]
        for pod in pods:
            name = pod["metadata"]["name"]
            lines += [f"Pod {name}: {_state(pod)}", *(f"  log: {each}" for each in self._log(name))]
        uids = {pod["metadata"]["uid"] for pod in pods}
        about = [event for event in events if event["involvedObject"].get("uid") in uids]
        lines += [
            f"Event: {event['type']} {event['reason']}, {event.get('message', '')}"
            for event in about[-_EVENTS:]
        ]
        describe = f"--namespace {self._namespace} describe deployment {self._deployment}"
        return "\n".join([*lines, f"See also: kubectl {describe}"])

    def _probe_rollout(self) -> None:
        if self._deployment is None:
            return
        try:
            deployment = self._rollout()
        except ApiException as error:
            if self._own or error.status != HTTPStatus.FORBIDDEN:
                raise
            return  # The webhook's own answer decides, and it is called next.
        replicas, status = deployment["spec"]["replicas"], deployment["status"]
        ready = status.get("readyReplicas", 0)
        is_new = status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
        # Of an existing operator one pod is enough: it may be rolled out at any time.
        is_up = status.get("updatedReplicas", 0) == ready == replicas if self._own else ready > 0
        if not (is_new and is_up):
            raise NotYet(f"{ready} of {replicas} pods of Deployment {self} are ready")

    def _rollout(self) -> Any:
        return self._get(f"deployments/{self._deployment}", "/apis/apps/v1")

    def _get(self, thing: str, group: str = "/api/v1", **query: str) -> Any:
        request = Request("GET", self._path(thing, group), query)
        return ask(self._api, request, limit=_REQUEST_SECONDS)

    def _log(self, pod: str) -> list[str]:
        request = Request("GET", self._path(f"pods/{pod}/log"), {"tailLines": str(_LOG_LINES)})
        try:
            text = send(self._api, request, limit=_REQUEST_SECONDS).data
        except (ApiException, HTTPError):
            return []  # A container that never ran has none; its state has the reason.
        return text.decode(errors="replace").splitlines()

    def _path(self, thing: str, group: str = "/api/v1") -> str:
        return f"{group}/namespaces/{self._namespace}/{thing}"


def _state(pod: dict[str, Any]) -> str:
    """Return the pod's phase, and why its containers do not run."""
    status = pod["status"]
    unmet = [
        condition["message"]
        for condition in status.get("conditions", [])
        if condition["status"] != "True" and "message" in condition
    ]
    return "; ".join([status["phase"], *troubles(pod), *unmet])


@contextmanager
def _not_ready_on_errors() -> Iterator[None]:
    try:
        yield
    except ApiException as error:
        raise NotYet(api_message(error)) from error
    except HTTPError as error:
        raise NotYet(f"the API server does not answer: {error}") from error
