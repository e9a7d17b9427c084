"""Whether the namespaces that a stack wants to make, or to use, are its own. Pure."""

from clusters.existing.look import Found
from clusters.existing.problem import Unusable
from clusters.training_operator import NAMESPACE as OPERATORS


def require_own(found: Found, namespace: str, stack: str) -> None:
    """Let a stack make the jobs' namespace, or keep the one that it has made.

    Raises:
        Unusable: it is there, and is somebody else's: the stack would take it away with it.
    """
    if namespace in found.namespaces and found.namespaces[namespace] != stack:
        raise Unusable(
            "namespace",
            f"is missing, and {namespace}, which the stack would make, is there already, "
            "and not this stack's; name it here to use it as it is, or another one that is there",
        )


def require_there(found: Found, namespace: str) -> None:
    """Let a stack use a namespace that is there.

    Raises:
        Unusable: it is not.
    """
    if namespace not in found.namespaces and namespace not in found.unseen:
        raise Unusable(
            "namespace",
            f"{namespace} is not there, and one that is named here is used as it is; make it "
            f"(`kubectl create namespace {namespace}`), or leave the key out for one of the "
            "stack's own",
        )


def require_home(found: Found, stack: str) -> None:
    """Let a stack make the operator's namespace, or keep the one that it has made.

    Raises:
        Unusable: it is there, and is somebody else's, such as the rest of Kubeflow's.
    """
    if OPERATORS in found.namespaces and found.namespaces[OPERATORS] != stack:
        raise Unusable(
            "operator",
            f"the training operator would be installed in the namespace {OPERATORS}, which is "
            "there already, and not this stack's: its pods would be held to another Pod Security "
            "level, and `make down` would remove it. Have whoever looks after it install the "
            "training operator, and say existing",
        )
