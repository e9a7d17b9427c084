"""The resource `slipway:clusters:Access`: a cluster's settings, or access to the cluster.

Inputs for access: `name`, `kubeconfig` and `advice`, a sentence on what to do if access is denied.
Inputs for settings: `refused`, a map of those that can't change; `fixed`, those that replace the
cluster; `left`, those that an existing cluster keeps; `byHand`, how to change these manually.
"""

from core import kube
from core.context import Context
from core.handler import Change, Handler, Properties
from core.rollout import not_ready_on_errors
from core.wait import NotYet, until

LIMIT_SECONDS = 600
"""Seconds that Azure may need for a role assignment to take effect
(https://learn.microsoft.com/azure/role-based-access-control/troubleshooting)."""
_POLL_SECONDS = 5.0
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class AccessHandler(Handler):
    """Compares settings before anything is changed, and waits until this account has access."""

    def diff(self, state: Properties, inputs: Properties, context: Context) -> list[Change]:
        """Return changes and report their effect, or raise `ValueError` for one in `refused`."""
        if changed := _changed(state, inputs, "refused"):
            text = f"nothing was changed, because an existing cluster can't change {changed}"
            raise ValueError(f"{text}. Set the former value, or run `make down` first")
        if changed := _changed(state, inputs, "fixed"):
            context.info(
                f"the cluster will be replaced: {changed}. All pods will be stopped, volumes will "
                "be lost, and jobs will train again"
            )
        elif changed := _changed(state, inputs, "left"):
            context.info(
                "these changes are not applied to the existing cluster: "
                f"{changed}. {inputs['byHand']}"
            )
        return super().diff(state, inputs, context)

    def create(self, inputs: Properties, context: Context) -> tuple[str, Properties]:
        """Wait for access. A timeout error contains the last response and the input `advice`."""
        if "kubeconfig" not in inputs:
            return "settings", {}
        until(
            lambda: _require(inputs["kubeconfig"]),
            LIMIT_SECONDS,
            f"the cluster {inputs['name']}",
            context,
            every=_POLL_SECONDS,
            explain=lambda: f"\nwhat to do: {inputs['advice']}",
        )
        return str(inputs["name"]), {}


def _changed(state: Properties, inputs: Properties, kind: str) -> str:
    """Describe the changed settings in the input `kind`, or return an empty string."""
    before = state.get(kind) or {}
    return ", ".join(
        f"{key} {before[key]} → {value}"
        for key, value in (inputs.get(kind) or {}).items()
        if key in before and before[key] != value
    )


def _require(kubeconfig: str) -> None:
    """Check that this account is allowed to create namespaces in the cluster.

    Raises:
        NotYet: The account is not allowed to yet, or the cluster is not responding.
        kubernetes.config.ConfigException: Logging in is impossible, so waiting would not help.
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
        raise NotYet("this account is not allowed to create namespaces in the cluster yet")
