"""The result of a cluster's inspection, and the choice of its training operator. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from clusters.cluster import ExistingOperator
from clusters.kubeconfig.choice import Unusable
from clusters.kubeconfig.settings import Requested
from clusters.operator import releases
from core.problem import quote


@dataclass(frozen=True)
class Deployed:
    """A training operator's Deployment, its container, and the stack that created it, if any."""

    namespace: str
    name: str
    image: str
    args: tuple[str, ...] = ()
    made_by: str | None = None


@dataclass(frozen=True)
class Found:
    """The state of a cluster, as far as the account may read it.

    Args:
        serves: Whether the API server serves PyTorchJobs.
        kubernetes: Its version of Kubernetes; None if that can't be read.
        trainer: Whether it serves the TrainJobs of Kubeflow Trainer 2.
        made_by: The stack that has installed the operator; None if another party has, or if it
            is unknown.
        deployed: Deployments of operators; None if unknown.
        judged: Whether a webhook validates PyTorchJobs; None if that can't be tested, for example
            because the namespace does not exist yet.
        namespaces: The existing ones of the jobs' and the operator's namespace, with the stack
            that created each, or None for another party. Unreadable ones are missing.
        unseen: The unreadable ones of these two namespaces.
        jobs_of: The stack whose service account is in the jobs' namespace; None if there is none,
            or if it is unknown.
        default_class: Whether there is a default StorageClass; None if that can't be read.
        nodes: Number of nodes for jobs; None if that can't be read.
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

    Nothing in `found` may belong to another stack. Raises `Unusable`.
    """
    if found.made_by == stack:
        if requested == "existing":
            raise _unfit(
                requested,
                "this stack has installed the operator itself, and would remove it; say auto, or "
                "run `make down`, and `make up` once another party has installed one",
            )
        return None
    if found.serves and (found.deployed or found.judged is True):
        return _others(requested, found, namespace)
    if requested == "install":
        return None
    if found.serves:
        if found.deployed is None and found.judged is None:
            # It may exist, but be unreadable; the gate checks whether it answers.
            return ExistingOperator()
        raise _unfit(
            requested,
            "there are PyTorchJobs, but no operator that runs them: neither a Deployment with its "
            "label, as far as this account may read, nor a webhook that checks them. Say install "
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


def _others(requested: Requested, facts: Found, namespace: str) -> ExistingOperator:
    """Return the first existing operator that runs jobs of the namespace, or raise `Unusable`."""
    operators = facts.deployed or ()
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
        if reasons := list(_against(each, version, facts, namespace)):
            refused.append(f"{each.namespace}/{each.name} {', and '.join(reasons)}")
            continue
        judging = facts.judged is not False if version is None else releases.has_webhook(version)
        return ExistingOperator(version, each.namespace, each.name, judges=judging)
    why = f"no training operator here can run the stack's jobs: {'; '.join(refused)}"
    raise _unfit(requested, why)


def _against(
    operator: Deployed, version: str | None, facts: Found, namespace: str
) -> Iterator[str]:
    """Yield why an operator can't run jobs of the namespace."""
    if version is None and facts.judged is False:
        yield (
            f"has the image {quote(operator.image)}, whose name has no version, and has no "
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
