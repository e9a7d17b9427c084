"""`slipway:clusters:Access`: a cluster that answers, and lets this account do what a stack needs.

Its inputs besides `name`, `kubeconfig` and `advice`, one sentence on what to do when it does not,
are for a preview: `fixed`, settings by their keys, of which a change replaces the cluster; `left`,
those that stay as they are in a cluster that exists; `byHand`, how to change these.
"""

from core import kube
from core.context import Context
from core.handler import Change, Handler, Properties
from core.rollout import not_ready_on_errors
from core.wait import NotYet, until

LIMIT_SECONDS = 600
"""What Azure may take until a new right is known everywhere
(https://learn.microsoft.com/azure/role-based-access-control/troubleshooting)."""
_POLL_SECONDS = 5.0
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class AccessHandler(Handler):
    """Waits until namespaces may be made in the cluster; a plain `up` does not check again."""

    def diff(self, state: Properties, inputs: Properties, context: Context) -> list[Change]:
        """Say what of a change replaces the cluster, and what an update leaves as it is."""
        if changed := _changed(state, inputs, "fixed"):
            context.info(
                f"the cluster is deleted and made anew: {changed}. What runs in it ends, its "
                "volumes are lost, and jobs train again"
            )
        elif changed := _changed(state, inputs, "left"):
            context.info(f"not changed in a cluster that exists: {changed}. {inputs['byHand']}")
        return super().diff(state, inputs, context)

    def create(self, inputs: Properties, context: Context) -> tuple[str, Properties]:
        """Wait; a time-out has what the cluster did last, and what to do."""
        until(
            lambda: ask(inputs["kubeconfig"]),
            LIMIT_SECONDS,
            f"the cluster {inputs['name']}",
            context,
            every=_POLL_SECONDS,
            explain=lambda: f"\nwhat to do: {inputs['advice']}",
        )
        return str(inputs["name"]), {}


def _changed(state: Properties, inputs: Properties, kind: str) -> str:
    """Return which settings of that kind change, and how; empty for none."""
    before = state.get(kind) or {}
    return ", ".join(
        f"{key} {before[key]} → {value}"
        for key, value in (inputs.get(kind) or {}).items()
        if key in before and before[key] != value
    )


def ask(kubeconfig: str) -> None:
    """Ask the cluster whether this account may make namespaces in it.

    Raises:
        NotYet: it may not, or the cluster does not answer.
        kubernetes.config.ConfigException: login is impossible: waiting would not help.
    """
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "create", "resource": "namespaces"}},
    }
    request = kube.Request("POST", _REVIEWS, body=review)
    with not_ready_on_errors():
        answer = kube.ask(kube.connect(kubeconfig), request, limit=15)
    if not answer.get("status", {}).get("allowed"):
        raise NotYet("it answers, but this account may not make namespaces in it yet")
