"""The resource `slipway:infra:TrackingReady`, which waits for the tracking server."""

from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any

from kubernetes.client.exceptions import ApiException

from core.context import Context
from core.handler import Change, Handler, Properties
from core.kube import UNREACHABLE, connect
from core.rollout import Rollout, not_ready_on_errors
from core.wait import NotYet, until

LIMIT_SECONDS = 180
"""Time limit for pulling the server's image and starting the server, which takes 10 s to start."""
_POLL_SECONDS = 0.5


class Gone(RuntimeError):
    """A Deployment of the tracking server no longer exists; the message says what to do."""


class TrackingReadyHandler(Handler):
    """Waits until the server and its database are ready; each `up` checks them again."""

    def drift(self, state: Properties, inputs: Properties, context: Context) -> list[Change]:
        try:
            _probe(_rollouts(inputs))
        except (NotYet, Gone):
            return [Change("deployments", drift=True)]
        return []

    def create(self, inputs: Properties, context: Context) -> tuple[str, Properties]:
        """Wait until all Deployments are ready; raise `Gone`, or `TimeoutError` with reasons."""
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

    def delete(self, state: Properties, context: Context) -> None:
        """Delete the Deployments: Pulumi may not, and their pods delay the claims' deletion."""
        for each in _rollouts(state):
            with suppress(*UNREACHABLE):  # the claims' deletion reports it
                each.delete()


def _rollouts(inputs: Properties) -> list[Rollout]:
    api: Any = connect(inputs["kubeconfig"])
    return [Rollout(api, inputs["namespace"], name) for name in inputs["deployments"]]


def _probe(rollouts: list[Rollout]) -> None:
    """Raise `NotYet` unless all Deployments are ready, or `Gone` if one does not exist."""
    for each in rollouts:
        with not_ready_on_errors():
            try:
                each.probe()
            except ApiException as error:
                if error.status == HTTPStatus.NOT_FOUND:
                    raise Gone(
                        f"Deployment {each} was deleted outside Pulumi: run `pulumi refresh`, then "
                        "`make up`, to recreate it"
                    ) from error
                raise
