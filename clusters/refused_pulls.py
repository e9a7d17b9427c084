"""Which pulls of images that a registry refuses may be admitted yet. Pure."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class RefusedPulls:
    """A cluster's policy for pulls that its registry refuses.

    Args:
        pattern: What a kubelet reports of such a pull, as a regular expression; its `.` stands for
            any character.
        seconds: How long a refusal may last.
        advice: What the user is shown meanwhile.
    """

    pattern: str
    seconds: float
    advice: str

    def may_be_admitted(self, message: str) -> bool:
        """Return whether what a kubelet reports of a pull is such a refusal.

        The kubelet repeats the reason while it waits to pull again:
        https://github.com/kubernetes/kubernetes/blob/v1.34.4/pkg/kubelet/images/image_manager.go
        """
        return re.search(self.pattern, message, re.DOTALL) is not None

    @classmethod
    def from_inputs(cls, inputs: Mapping[str, Any]) -> "RefusedPulls | None":
        """Return the policy in the inputs of a resource; None without one."""
        known = inputs.get("refusedPulls")
        return None if known is None else cls(**known)


def as_input(policy: RefusedPulls | None) -> dict[str, Any]:
    """Return a policy as an input of a resource; nothing without one."""
    return {} if policy is None else {"refusedPulls": asdict(policy)}


AZURE_LATE_ROLES = RefusedPulls(
    # Only Azure's registries: they answer 404 for an image that does not exist, and this to a login
    # without a role. Docker Hub and others refuse the login for both.
    # The text is containerd's, as in https://github.com/Azure/AKS/issues/4593.
    pattern=r"\.azurecr\.(io|us|cn)/.*(401 Unauthorized|403 Forbidden|authentication required)",
    # Ten minutes, and the longest pause between two pulls, five:
    # https://kubernetes.io/docs/concepts/containers/images/#imagepullbackoff
    seconds=900.0,
    advice=(
        "The registry refuses the nodes' login. A new role takes up to ten minutes to apply, and "
        "the nodes try again: this is waited for, at most 15 minutes"
    ),
)
"""AKS pulls as the identity of its kubelets, whose role Azure may take ten minutes to apply.

https://learn.microsoft.com/azure/role-based-access-control/troubleshooting
"""
