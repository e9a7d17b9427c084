"""The program's side of `slipway:clusters:Access`."""

from collections.abc import Mapping
from types import MappingProxyType

import pulumi


class Access(pulumi.CustomResource):
    """A cluster that answers, and lets this account do what the stack needs.

    Args:
        name: Of the cluster.
        kubeconfig: How it is reached.
        advice: What to do when it isn't: one sentence.
        fixed: Settings that can't be changed in a cluster that exists, by their keys.
    """

    def __init__(
        self,
        name: str,
        *,
        kubeconfig: pulumi.Input[str],
        advice: str,
        fixed: Mapping[str, str] = MappingProxyType({}),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        properties = {
            "name": name,
            "kubeconfig": kubeconfig,
            "advice": advice,
            "fixed": dict(fixed),
        }
        super().__init__("slipway:clusters:Access", name, properties, opts)
