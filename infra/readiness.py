"""The resource `slipway:infra:OperatorReady`: what depends on it may submit PyTorchJobs."""

from typing import ClassVar

import tenacity

from infra import stray_runs
from infra.diagnosis import explain
from infra.operator_probe import NotReadyError, Operator
from infra.plugin.context import Context
from infra.plugin.handler import Change, Handler, Properties, compare
from infra.plugin.values import UNKNOWN

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
        except NotReadyError:
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

    shown = ""

    def say(state: tenacity.RetryCallState) -> None:
        nonlocal shown
        problem = str(state.outcome.exception()) if state.outcome is not None else ""
        if problem != shown:  # a log without a terminal shows each status as a line
            context.status(f"waiting for the training operator: {problem}")
            shown = problem

    attempts = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(NotReadyError),
        stop=tenacity.stop_any(
            tenacity.stop_after_delay(LIMIT_SECONDS),
            tenacity.stop_when_event_set(context.cancelled),
        ),
        wait=tenacity.wait_fixed(_POLL_SECONDS),
        sleep=tenacity.sleep_using_event(context.cancelled),
        before_sleep=say,
        reraise=True,
    )
    try:
        attempts(attempt)
    except NotReadyError as error:
        if context.cancelled.is_set():
            raise InterruptedError("interrupted while waiting for the training operator") from error
        raise TimeoutError(
            f"the training operator was not ready within {LIMIT_SECONDS} s: {error}\n"
            f"{_explained(operator)}"
        ) from error


def _explained(operator: Operator) -> str:
    if operator.deployment is None:
        return (
            "This account can't see its Deployment, so ask whoever has installed it; or see "
            "whether `kubectl get validatingwebhookconfigurations` lists one of PyTorchJobs"
        )
    return explain(operator.api, operator.namespace, operator.deployment)
