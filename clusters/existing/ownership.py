"""Whether what a stack wants to make or use in a cluster is its own, and no other stack's. Pure.

What each stack makes in a cluster has the same names, so two of them would be at odds over it.
"""

from collections.abc import Iterable

from clusters.existing.kubeconfig import Unusable
from clusters.existing.look import Found
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


def require_namespace(found: Found, namespace: str, stack: str, *, named: bool) -> None:
    """Let a stack use the namespace that the settings name, or else make it or keep its own.

    Raises:
        Unusable: one that is named does not exist; or one that the stack would make exists and is
            another party's: the stack would remove it with itself.
    """
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
    """Let a stack make the operator's namespace, or keep the one that it has made.

    Raises:
        Unusable: it exists and is another party's, such as the rest of Kubeflow's.
    """
    if found.namespaces.get(OPERATORS, stack) != stack:
        raise Unusable(
            "operator",
            f"the training operator would be installed in the namespace {OPERATORS}, which is "
            "there already, and not this stack's: its pods would be held to another Pod Security "
            "level, and `make down` would remove it. Have whoever looks after it install the "
            "training operator, and say existing",
        )


def _other(owners: Iterable[str | None], stack: str) -> str | None:
    return next((each for each in owners if each is not None and each != stack), None)


def _into(other: str) -> str:
    return f"put this stack's jobs into slipway:jobs of {other}"
