"""Whether a stack may use a cluster beside other stacks, and which of its namespaces. Pure.

Each stack gives what it makes in a cluster the same names, so two would be at odds over it.
All functions raise `Unusable` with what to do.
"""

from collections.abc import Iterable

from clusters.kubeconfig.choice import Unusable
from clusters.kubeconfig.look import Found
from clusters.operator import releases


def require_alone(found: Found, namespace: str, stack: str) -> None:
    """Let a stack into a cluster whose operator is no other stack's, and a namespace likewise."""
    installed = [each.made_by for each in found.deployed or ()]
    owners = [found.made_by, found.namespaces.get(releases.NAMESPACE), *installed]
    if (other := _other(owners, stack)) is not None:
        raise Unusable(
            "",
            f"the stack {other} has installed this cluster's training operator, which looks after "
            "that stack's jobs alone. There is one stack for each cluster whose operator Slipway "
            f"has installed: put this stack's jobs into slipway:jobs of {other}, or use a cluster "
            "of its own",
        )
    if (other := _other([found.namespaces.get(namespace), found.jobs_of], stack)) is not None:
        raise Unusable(
            "namespace",
            f"{namespace} is where the stack {other} has its jobs, and there is one stack for each "
            "namespace: name another one that is there, put this stack's jobs into slipway:jobs of "
            f"{other}, or use a cluster of its own",
        )


def require_namespace(found: Found, namespace: str, stack: str, *, named: bool) -> None:
    """Let a stack use the namespace that the settings name, or else make it or keep its own."""
    if named and namespace not in {*found.namespaces, *found.unseen}:
        raise Unusable(
            "namespace",
            f"{namespace} is not there, and one that is named here is used as it is; make it "
            f"(`kubectl create namespace {namespace}`), or leave the key out for one of the "
            "stack's own",
        )
    if not named and found.namespaces.get(namespace, stack) != stack:
        raise Unusable(
            "namespace",
            f"is missing, and {namespace}, which the stack would make, is there already, "
            "and not this stack's; name it here to use it as it is, or another one that is there",
        )


def require_home(found: Found, stack: str) -> None:
    """Let a stack make the operator's namespace, or keep the one that it has made."""
    if found.namespaces.get(releases.NAMESPACE, stack) != stack:
        raise Unusable(
            "operator",
            "the training operator would be installed in the namespace "
            f"{releases.NAMESPACE}, which is there already, and not this stack's: its pods would "
            "be held to another Pod Security level, and `make down` would remove it. Have whoever "
            "looks after it install the training operator, and say existing",
        )


def _other(owners: Iterable[str | None], stack: str) -> str | None:
    return next((each for each in owners if each is not None and each != stack), None)
