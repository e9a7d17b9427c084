"""The program's side of `slipway:clusters:Access`."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pulumi


class Access(pulumi.CustomResource):
    """A cluster that answers, and lets this account do what the stack needs.

    Args:
        name: Of the cluster.
        kubeconfig: How it is reached.
        advice: What to do when it isn't: one sentence.
        lasting: What a preview says of changes: `fixed`, settings by their keys, of which a
            change replaces the cluster; `left`, those that stay as they are in a cluster that
            exists; `byHand`, how to change these.
    """

    def __init__(
        self,
        name: str,
        *,
        kubeconfig: pulumi.Input[str],
        advice: str,
        lasting: Mapping[str, Any] = MappingProxyType({}),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        properties = {"name": name, "kubeconfig": kubeconfig, "advice": advice, **lasting}
        super().__init__("slipway:clusters:Access", name, properties, opts)
