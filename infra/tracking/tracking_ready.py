"""The resource `slipway:infra:TrackingReady`: the tracking server takes what runs send to it."""

from functools import partial
from http import HTTPStatus
from typing import Any

from kubernetes.client.exceptions import ApiException

from core.context import Context
from core.handler import Change, Handler, Properties
from core.kube import connect
from core.rollout import Rollout, not_ready_on_errors
from core.wait import NotYet, until

LIMIT_SECONDS = 180
"""How long a server may take to start: 10 seconds, and longer where its image is pulled."""
_POLL_SECONDS = 0.5


class Gone(RuntimeError):
    """A Deployment that the stack has made is not there; the text has what to do."""


class TrackingReadyHandler(Handler):
    """Waits until the server and its database are ready; each `up` looks whether they still are."""

    def drift(self, state: Properties, inputs: Properties, context: Context) -> list[Change]:
        try:
            _probe(_rollouts(inputs))
        except (NotYet, Gone):
            return [Change("deployments", drift=True)]
        return []

    def create(self, inputs: Properties, context: Context) -> tuple[str, Properties]:
        """Wait until they are ready; a time-out has what they show. It raises `Gone`, too."""
        rollouts = _rollouts(inputs)
        until(
            partial(_probe, rollouts),
            LIMIT_SECONDS,
            "the tracking server",
            context,
            every=_POLL_SECONDS,
            explain=lambda: "".join(each.explain() for each in rollouts),
        )
        return str(rollouts[-1]), {}


def _rollouts(inputs: Properties) -> list[Rollout]:
    api: Any = connect(inputs["kubeconfig"])
    return [Rollout(api, inputs["namespace"], name) for name in inputs["deployments"]]


def _probe(rollouts: list[Rollout]) -> None:
    """Raise `NotYet` unless all of them are ready, or `Gone`."""
    for each in rollouts:
        with not_ready_on_errors():
            try:
                each.probe()
            except ApiException as error:
                if error.status == HTTPStatus.NOT_FOUND:
                    raise Gone(
                        f"Deployment {each} has been deleted, which Pulumi does not know: bring it "
                        "back by `pulumi refresh` and `make up`"
                    ) from error
                raise
