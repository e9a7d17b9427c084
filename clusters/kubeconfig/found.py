"""The result of inspecting a cluster, and the choice of a training operator in it. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from clusters.cluster import ExistingOperator
from clusters.kubeconfig.choice import Unusable
from clusters.kubeconfig.settings import Requested
from clusters.operator import ACCEPTED, has_webhook, is_accepted, version_of
from core.problem import quote


@dataclass(frozen=True)
class Deployed:
    """A training operator's Deployment; `made_by` is the stack that created it, or None."""

    namespace: str
    name: str
    image: str
    args: tuple[str, ...] = ()
    made_by: str | None = None


@dataclass(frozen=True)
class Found:
    """The state of a cluster, as far as this account is allowed to read it.

    Args:
        serves: Whether the API server serves PyTorchJobs.
        kubernetes: The Kubernetes version, or None if it can't be read.
        trainer: Whether the API server serves Kubeflow Trainer 2's TrainJobs.
        made_by: The stack that installed the operator, or None if it is unknown or another party
            installed the operator.
        deployed: The operators' Deployments, or None if unknown.
        judged: Whether a webhook validates PyTorchJobs, or None if that can't be tested, for
            example because the namespace does not exist yet.
        namespaces: The jobs' and the operator's namespaces, if they exist and can be read, each
            with the stack that created it, or None if another party did.
        unseen: The namespaces among these two that can't be read.
        jobs_of: The stack whose service account is in the jobs' namespace, or None if there is
            none or it is unknown.
        default_class: Whether there is a default StorageClass, or None if that can't be read.
        nodes: Number of nodes for jobs, or None if it can't be read.
        claim_of: The stack whose claim for kept files is in the jobs' namespace, or None if there
            is none or it is unknown.
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
    """Return the existing operator to use, or None to install one or keep the stack's own.

    Raises `Unusable` if neither is possible. Nothing in `found` may belong to another stack.
    """
    if found.made_by == stack:
        if requested == "existing":
            raise _unfit(
                requested,
                "this stack installed the operator itself, and would remove it; set auto, or run "
                "`make down`, and run `make up` once another party has installed an operator",
            )
        return None
    if found.serves and (found.deployed or found.judged is True):
        return _others(requested, found, namespace)
    if requested == "install":
        return None
    if found.serves:
        if found.deployed is None and found.judged is None:
            # An operator may exist but be unreadable; the gate checks whether it responds.
            return ExistingOperator()
        raise _unfit(
            requested,
            "the cluster serves PyTorchJobs, but no operator seems to run them: this account can "
            "see neither a Deployment with the operator's label nor a webhook. Set `operator: "
            "install` to install one; or, if there is one older than 1.8, without a webhook, allow "
            "this account to `get` Deployments in the operator's namespace",
        )
    if found.trainer:
        raise _unfit(
            requested,
            "the cluster has Kubeflow Trainer 2 (trainer.kubeflow.org), which runs TrainJobs but "
            f"not PyTorchJobs; Slipway requires the training operator {ACCEPTED}. Set "
            "`operator: install` to install it as well",
        )
    if requested == "existing":
        raise _unfit(
            requested,
            "the cluster does not serve PyTorchJobs (kubeflow.org/v1), so no training operator is "
            "installed; set install or auto, or ask the cluster's administrator to install one",
        )
    return None


def _others(requested: Requested, facts: Found, namespace: str) -> ExistingOperator:
    """Return the first existing operator that runs jobs in the namespace, or raise `Unusable`."""
    operators = facts.deployed or ()
    if requested == "install":
        named = ", ".join(f"{each.namespace}/{each.name}" for each in operators)
        raise _unfit(
            requested,
            f"there is already a training operator{f', {named}' if named else ''}, and two would "
            "both act on every job; set existing or auto to use the existing operator",
        )
    if not operators:
        return ExistingOperator()
    refused = []
    for each in operators:
        version = version_of(each.image)
        if reasons := list(_against(each, version, facts, namespace)):
            refused.append(f"{each.namespace}/{each.name} {', and '.join(reasons)}")
            continue
        judging = facts.judged is not False if version is None else has_webhook(version)
        return ExistingOperator(version, each.namespace, each.name, judges=judging)
    why = f"no training operator here can run the stack's jobs: {'; '.join(refused)}"
    raise _unfit(requested, why)


def _against(
    operator: Deployed, version: str | None, facts: Found, namespace: str
) -> Iterator[str]:
    """Yield the reasons why an operator can't run jobs in the namespace."""
    if version is None and facts.judged is False:
        yield (
            f"has the image {quote(operator.image)}, whose name contains no version, and no "
            f"webhook for PyTorchJobs, unlike 1.8 and later; accepted: {ACCEPTED}"
        )
    elif version is not None and not is_accepted(version):
        yield f"is version {version}; accepted: {ACCEPTED}"
    only = next((each for each in operator.args if each.startswith("--namespace=")), None)
    if only is not None and only.partition("=")[2] not in {"", namespace}:
        yield (
            f"handles only the namespace {only.partition('=')[2]} ({quote(only)}), but the jobs' "
            f"namespace is {namespace}: set slipway:cluster.namespace to the one it handles"
        )


def _unfit(requested: Requested, why: str) -> Unusable:
    return Unusable("operator", f"{requested}: {why}; allowed: auto, existing, install")
