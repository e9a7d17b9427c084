"""Recognizes a pull that a registry refuses because a role is not known everywhere yet. Pure.

AKS pulls as the identity of its kubelets, whose role Azure may take ten minutes to apply
(https://learn.microsoft.com/azure/role-based-access-control/troubleshooting).
"""

import re

SECONDS = 900.0
"""How long a refusal may last: ten minutes, and the longest pause between two pulls, five.

https://kubernetes.io/docs/concepts/containers/images/#imagepullbackoff
"""
ADVICE = (
    "The registry refuses the nodes' login. A new role takes up to ten minutes to apply, and the "
    f"nodes try again: this is waited for, at most {SECONDS / 60:g} minutes"
)
_REFUSED = re.compile(
    # Only Azure's registries: they answer 404 for an image that does not exist, and this to a login
    # without a role. Docker Hub and others refuse the login for both.
    # The text is containerd's, as in https://github.com/Azure/AKS/issues/4593.
    r"\.azurecr\.(io|us|cn)/.*(401 Unauthorized|403 Forbidden|authentication required)",
    re.DOTALL,
)


def may_be(message: str) -> bool:
    """Return whether what a kubelet reports of a pull is such a refusal.

    The kubelet repeats the reason while it waits to pull again:
    https://github.com/kubernetes/kubernetes/blob/v1.34.4/pkg/kubelet/images/image_manager.go
    """
    return _REFUSED.search(message) is not None
