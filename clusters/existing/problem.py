"""What is wrong with a cluster that is there, or with the way to it."""

import pulumi


class Unusable(pulumi.RunError):
    """The cluster can't be used as the settings say; the CLI prints it with no traceback.

    Args:
        key: Which setting, below `slipway:cluster`; empty for all of it.
        text: What is wrong, and what to do.
    """

    def __init__(self, key: str, text: str) -> None:
        place = f"slipway:cluster.{key}" if key else "slipway:cluster"
        super().__init__(f"{place}: {text}")


class Absent(Unusable):
    """There is no such file or context, so nothing leads to the cluster, or to one that was."""
