"""The program's side of `slipway:clusters:Access`."""

import pulumi


class Access(pulumi.CustomResource):
    """A cluster that answers, and lets this account do what the stack needs.

    Args:
        name: Of the cluster.
        kubeconfig: How it is reached.
        advice: What to do when it isn't: one sentence.
    """

    def __init__(
        self,
        name: str,
        *,
        kubeconfig: pulumi.Input[str],
        advice: str,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        properties = {"name": name, "kubeconfig": kubeconfig, "advice": advice}
        super().__init__("slipway:clusters:Access", name, properties, opts)
