"""The resource `slipway:infra:OperatorReady`: what depends on it may submit PyTorchJobs."""

from typing import ClassVar

from core.context import Context
from core.handler import Change, Handler, Properties, compare
from core.values import UNKNOWN
from core.wait import NotYet, until
from infra import stray_runs
from infra.operator.diagnosis import explain
from infra.operator.probe import Operator

LIMIT_SECONDS = 120
_POLL_SECONDS = 0.5


class OperatorReadyHandler(Handler):
    """Waits until the operator is ready, and on every `up` looks whether it still is."""

    type: ClassVar[str] = "slipway:infra:OperatorReady"

    def diff(
        self, resource_id: str, state: Properties, inputs: Properties, context: Context
    ) -> list[Change]:
        changes = compare(state, inputs)
        if changes or UNKNOWN in inputs.values():
            return changes
        try:
            Operator.of(inputs).probe()
        except NotYet:
            return [Change("existing" if "existing" in inputs else "deployment", drift=True)]
        return []

    def create(self, inputs: Properties, context: Context) -> tuple[str, Properties]:
        operator = Operator.of(inputs)
        _wait(operator, context)
        return str(operator), {}

    def read(self, resource_id: str, state: Properties, context: Context) -> Properties | None:
        return {}

    def update(
        self, resource_id: str, state: Properties, inputs: Properties, context: Context
    ) -> Properties:
        _wait(Operator.of(inputs), context)
        return {}

    def delete(self, resource_id: str, state: Properties, context: Context) -> None:
        """Stop the runs that nobody else knows of, while the operator still looks after them.

        In a namespace that others use, too, nobody can tell whose they are.
        """
        if state.get("shared"):
            return
        stray_runs.stop(state["kubeconfig"], state["jobNamespace"], context)


def _wait(operator: Operator, context: Context) -> None:
    """Wait until `operator` is ready.

    Raises:
        TimeoutError: after `LIMIT_SECONDS`, with what the cluster says of the operator.
        InterruptedError: the person pressed Ctrl-C.
    """

    def attempt() -> None:
        operator.deliver_certificate()
        operator.probe()

    until(
        attempt,
        LIMIT_SECONDS,
        "the training operator",
        context,
        every=_POLL_SECONDS,
        overdue=lambda missing: (
            f"the training operator was not ready within {LIMIT_SECONDS} s: {missing}\n"
            f"{_explained(operator)}"
        ),
    )


def _explained(operator: Operator) -> str:
    if operator.deployment is None:
        return (
            "This account can't see its Deployment, so ask whoever has installed it; or see "
            "whether `kubectl get validatingwebhookconfigurations` lists one of PyTorchJobs"
        )
    return explain(operator.api, operator.namespace, operator.deployment)
