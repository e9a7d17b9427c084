"""What was found in a cluster, and which training operator of it a stack uses. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from clusters.cluster import ExistingOperator
from clusters.kubeconfig.choice import Unusable
from clusters.kubeconfig.settings import Requested
from clusters.operator import releases
from core.problem import quote


@dataclass(frozen=True)
class Deployed:
    """A training operator's Deployment, what it runs, and which stack has made it, if one has."""

    namespace: str
    name: str
    image: str
    args: tuple[str, ...] = ()
    made_by: str | None = None


@dataclass(frozen=True)
class Found:
    """What a cluster has, as far as the account may see it.

    Args:
        serves: Whether the API server serves PyTorchJobs.
        kubernetes: Its version of Kubernetes; None when that can't be seen.
        trainer: Whether it serves the TrainJobs of Kubeflow Trainer 2.
        made_by: The stack that has installed the operator; None when it is another party's, or
            is unknown.
        deployed: Operators; None when that is unknown.
        judged: Whether a webhook judges PyTorchJobs; None when that can't be tried, since
            the namespace does not exist yet, for one.
        namespaces: The existing ones, of the jobs' and the operator's, each with the stack
            that has made it; None for another party. Those that can't be seen are missing.
        unseen: Which of the two can't be seen.
        jobs_of: The stack whose jobs' account is in their namespace; None when there is none, or it
            is unknown.
        default_class: Whether there is a default StorageClass; None when that can't be seen.
        nodes: How many nodes take jobs; None likewise.
        claim_of: The stack whose claim for kept files is in the jobs' namespace; None as `jobs_of`.
    """

    serves: bool = False
    kubernetes: str | None = None
    trainer: bool = False
    made_by: str | None = None
    deployed: tuple[Deployed, ...] | None = None
    judged: bool | None = None
    namespaces: Mapping[str, str | None] = field(default_factory=dict)
    unseen: frozenset[str] = frozenset()
    jobs_of: str | None = None
    default_class: bool | None = None
    nodes: int | None = None
    claim_of: str | None = None


def decide(
    requested: Requested, found: Found, *, stack: str, namespace: str
) -> ExistingOperator | None:
    """Return the operator to use; None to install one, or to keep the stack's own.

    What was found is none of another stack's. Raises `Unusable`.
    """
    if found.made_by == stack:
        if requested == "existing":
            raise _unfit(
                requested,
                "this stack has installed the operator itself, and would remove it; say auto, or "
                "`make down` and begin anew once another party has installed one",
            )
        return None
    if found.serves and (found.deployed or found.judged is True):
        return _others(requested, found, namespace)
    if requested == "install":
        return None
    if found.serves:
        if found.deployed is None and found.judged is None:
            # It may exist unseen; the gate finds out whether it answers.
            return ExistingOperator()
        raise _unfit(
            requested,
            "there are PyTorchJobs, but no operator that runs them: neither a Deployment with its "
            "label, as far as this account may look, nor a webhook that judges them. Say install "
            "to have it installed; or let the account get Deployments in the operator's "
            "namespace, if it is older than 1.8 and has no webhook",
        )
    if found.trainer:
        raise _unfit(
            requested,
            "the cluster has Kubeflow Trainer 2 (trainer.kubeflow.org), which runs TrainJobs and "
            f"no PyTorchJobs; Slipway needs the training operator {releases.ACCEPTED}. Say "
            "install to have it installed beside it",
        )
    if requested == "existing":
        raise _unfit(
            requested,
            "the cluster has no PyTorchJobs (kubeflow.org/v1), so no training operator is "
            "installed; say install or auto, or have whoever looks after the cluster install it",
        )
    return None


def _others(requested: Requested, found: Found, namespace: str) -> ExistingOperator:
    """Decide for a cluster with operators: the first one that runs jobs of the namespace."""
    operators = found.deployed or ()
    if requested == "install":
        named = ", ".join(f"{each.namespace}/{each.name}" for each in operators)
        raise _unfit(
            requested,
            f"there is a training operator already{f', {named}' if named else ''}, and two would "
            "both act on every job; say existing, or auto, which finds it",
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
    why = f"no training operator here can run the stack's jobs: {'; '.join(refused)}"
    raise _unfit(requested, why)


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


def _unfit(requested: Requested, why: str) -> Unusable:
    return Unusable("operator", f"{requested}: {why}; allowed: auto, existing, install")
