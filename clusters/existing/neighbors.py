"""Whether another stack of Slipway's is where this one wants to be. Pure.

What each stack makes in a cluster has the same names, so two of them would be at odds over it.
"""

from collections.abc import Iterable

from clusters.existing.look import Found
from clusters.existing.problem import Unusable
from clusters.training_operator import NAMESPACE as OPERATORS


def require_alone(found: Found, namespace: str, stack: str) -> None:
    """Let a stack into a cluster whose operator is no other stack's, and a namespace likewise.

    Args:
        found: What the cluster has.
        namespace: Where the stack's jobs are to run.
        stack: Its name, as in marks.

    Raises:
        Unusable: another stack has installed the operator, or has its jobs in the namespace.
    """
    installed = [each.made_by for each in found.deployed or ()]
    owners = [found.made_by, found.namespaces.get(OPERATORS), *installed]
    if (other := _other(owners, stack)) is not None:
        raise Unusable(
            "",
            f"the stack {other} has installed this cluster's training operator, which looks after "
            "that stack's jobs alone. There is one stack for each cluster whose operator Slipway "
            f"has installed: {_into(other)}, or use a cluster of its own",
        )
    if (other := _other([found.namespaces.get(namespace), found.jobs_of], stack)) is not None:
        raise Unusable(
            "namespace",
            f"{namespace} is where the stack {other} has its jobs, and there is one stack for each "
            f"namespace: name another one that is there, {_into(other)}, or use a cluster of its "
            "own",
        )


def _other(owners: Iterable[str | None], stack: str) -> str | None:
    return next((each for each in owners if each is not None and each != stack), None)


def _into(other: str) -> str:
    return f"put this stack's jobs into slipway:jobs of {other}"
