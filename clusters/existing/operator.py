"""Whether a stack may use a cluster, and which training operator: one that is there, or its own.

Each stack gives what it makes in a cluster the same names, so two would be at odds over it. Pure.
"""

from collections.abc import Iterable, Iterator
from typing import Literal

from clusters import training_operator as releases
from clusters.cluster import ExistingOperator
from clusters.existing.kubeconfig import Unusable
from clusters.existing.look import Deployed, Found
from core.problem import quote

Requested = Literal["auto", "install", "existing"]
_Decided = ExistingOperator | str | None
"""As `decide` returns; or why the request can't be met."""


def decide(
    requested: Requested, found: Found, *, stack: str, namespace: str
) -> ExistingOperator | None:
    """Return the operator to use; None to install one, or to keep the stack's own.

    What was found is none of another stack's. Raises `Unusable`, as all here, with what to do.
    """
    decided: _Decided = None
    if found.made_by == stack:
        if requested == "existing":
            decided = (
                "this stack has installed the operator itself, and would remove it; say auto, or "
                "`make down` and begin anew once another party has installed one"
            )
    elif not found.serves:
        decided = _absent(requested, found)
    elif found.deployed or found.judged is True:
        decided = _others(requested, found, namespace)
    else:
        decided = _unseen(requested, found)
    if isinstance(decided, str):
        text = f"{requested}: {decided}; allowed: auto, existing, install"
        raise Unusable("operator", text)
    return decided


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


def _absent(requested: Requested, found: Found) -> _Decided:
    """Decide for a cluster without PyTorchJobs."""
    if found.trainer and requested != "install":
        return (
            "the cluster has Kubeflow Trainer 2 (trainer.kubeflow.org), which runs TrainJobs and "
            f"no PyTorchJobs; Slipway needs the training operator {releases.ACCEPTED}. Say "
            "install to have it installed beside it"
        )
    if requested == "existing":
        return (
            "the cluster has no PyTorchJobs (kubeflow.org/v1), so no training operator is "
            "installed; say install or auto, or have whoever looks after the cluster install it"
        )
    return None


def _unseen(requested: Requested, found: Found) -> _Decided:
    """Decide for a cluster with PyTorchJobs, and no operator that was seen."""
    if requested == "install":
        return None
    if found.deployed is None and found.judged is None:
        # It may exist unseen; the gate finds out whether it answers.
        return ExistingOperator()
    return (
        "there are PyTorchJobs, but no operator that runs them: neither a Deployment with its "
        "label, as far as this account may look, nor a webhook that judges them. Say install to "
        "have it installed; or let the account get Deployments in the operator's namespace, if "
        "it is older than 1.8 and has no webhook"
    )


def _others(requested: Requested, found: Found, namespace: str) -> _Decided:
    """Decide for a cluster with operators: the first one that runs jobs of the namespace."""
    operators = found.deployed or ()
    if requested == "install":
        named = ", ".join(f"{each.namespace}/{each.name}" for each in operators)
        return (
            f"there is a training operator already{f', {named}' if named else ''}, and two would "
            "both act on every job; say existing, or auto, which finds it"
        )
    if not operators:
        return ExistingOperator()
    refused = []
    for each in operators:
        version = releases.version_of(each.image)
        if reasons := list(_against(each, version, found, namespace)):
            refused.append(f"{each.namespace}/{each.name} {', and '.join(reasons)}")
            continue
        judging = found.judged is not False if version is None else releases.has_webhook(version)
        return ExistingOperator(version, each.namespace, each.name, judges=judging)
    return f"no training operator here can run the stack's jobs: {'; '.join(refused)}"


def _against(
    operator: Deployed, version: str | None, found: Found, namespace: str
) -> Iterator[str]:
    """Yield why an operator can't run jobs of the namespace."""
    if version is None and found.judged is False:
        yield (
            f"is of the image {quote(operator.image)}, whose name tells no version, and has no "
            f"webhook for PyTorchJobs, as those since 1.8 have; it takes {releases.ACCEPTED}"
        )
    elif version is not None and not releases.is_accepted(version):
        yield f"is version {version}; it takes {releases.ACCEPTED}"
    only = next((each for each in operator.args if each.startswith("--namespace=")), None)
    if only is not None and only.partition("=")[2] not in {"", namespace}:
        yield (
            f"looks after the namespace {only.partition('=')[2]} alone ({quote(only)}), and the "
            f"jobs' is {namespace}: name that one under slipway:cluster.namespace"
        )


def _other(owners: Iterable[str | None], stack: str) -> str | None:
    return next((each for each in owners if each is not None and each != stack), None)
