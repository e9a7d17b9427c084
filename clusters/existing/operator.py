"""Whether a stack uses the training operator that a cluster has, or installs one. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from clusters import training_operator as releases
from clusters.cluster import ExistingOperator
from clusters.existing.kubeconfig import Unusable
from clusters.existing.look import Deployed, Found
from core.problem import quote

Requested = Literal["auto", "install", "existing"]
_ALLOWED = "allowed: auto, existing, install"


@dataclass(frozen=True)
class Situation:
    """What the settings request, and what the cluster has.

    Args:
        requested: `operator` of the settings.
        found: What the cluster has; none of it another stack's.
        stack: The running stack, as an operator's mark names it.
        namespace: Where its jobs are to run.
    """

    requested: Requested
    found: Found
    stack: str
    namespace: str


def decide(case: Situation) -> ExistingOperator | None:
    """Return the operator to use; None to install one, or to keep the stack's own.

    Raises:
        Unusable: the request can't be met; with what to do.
    """
    found = case.found
    if found.made_by == case.stack:
        if case.requested == "existing":
            raise _refused(
                case,
                "this stack has installed the operator itself, and would remove it; say auto, or "
                "`make down` and begin anew once another party has installed one",
            )
        return None
    if not found.serves:
        _require_room(case)
        return None
    others = bool(found.deployed) or found.judged is True
    if case.requested == "install":
        if others:
            named = ", ".join(f"{each.namespace}/{each.name}" for each in found.deployed or ())
            whose = f", {named}" if named else ""
            raise _refused(
                case,
                f"there is a training operator already{whose}, and two would both act on "
                "every job; say existing, or auto, which finds it",
            )
        return None
    if others:
        return _usable(case)
    if found.deployed is None and found.judged is None:
        # It may exist unseen; the gate finds out whether it answers.
        return ExistingOperator()
    raise _refused(
        case,
        "there are PyTorchJobs, but no operator that runs them: neither a Deployment with its "
        "label, as far as this account may look, nor a webhook that judges them. Say install to "
        "have it installed; or let the account get Deployments in the operator's namespace, if "
        "it is older than 1.8 and has no webhook",
    )


def _require_room(case: Situation) -> None:
    """Let an operator be installed where none exists.

    Raises:
        Unusable: the cluster has something else in its place, or must already have one.
    """
    if case.found.trainer and case.requested != "install":
        raise _refused(
            case,
            "the cluster has Kubeflow Trainer 2 (trainer.kubeflow.org), which runs TrainJobs and "
            f"no PyTorchJobs; Slipway needs the training operator {releases.ACCEPTED}. Say "
            "install to have it installed beside it",
        )
    if case.requested == "existing":
        raise _refused(
            case,
            "the cluster has no PyTorchJobs (kubeflow.org/v1), so no training operator is "
            "installed; say install or auto, or have whoever looks after the cluster install it",
        )


def _usable(case: Situation) -> ExistingOperator:
    """Return the first operator that runs jobs of the namespace.

    Raises:
        Unusable: none does; with why, for each.
    """
    found = case.found
    if not found.deployed:
        return ExistingOperator()
    known = [(each, list(_against(each, case))) for each in found.deployed]
    for each, reasons in known:
        if not reasons:
            version = releases.version_of(each.image)
            judging = (
                found.judged is not False if version is None else releases.has_webhook(version)
            )
            return ExistingOperator(version, each.namespace, each.name, judges=judging)
    refused = "; ".join(f"{each.namespace}/{each.name} {', and '.join(why)}" for each, why in known)
    raise _refused(case, f"no training operator here can run the stack's jobs: {refused}")


def _against(operator: Deployed, case: Situation) -> Iterator[str]:
    version = releases.version_of(operator.image)
    if version is None and case.found.judged is False:
        yield (
            f"is of the image {quote(operator.image)}, whose name tells no version, and has no "
            f"webhook for PyTorchJobs, as those since 1.8 have; it takes {releases.ACCEPTED}"
        )
    elif version is not None and not releases.is_accepted(version):
        yield f"is version {version}; it takes {releases.ACCEPTED}"
    only = next((each for each in operator.args if each.startswith("--namespace=")), None)
    if only is not None and only.partition("=")[2] not in {"", case.namespace}:
        yield (
            f"looks after the namespace {only.partition('=')[2]} alone ({quote(only)}), and the "
            f"jobs' is {case.namespace}: name that one under slipway:cluster.namespace"
        )
    schemes = [each for each in operator.args if each.startswith("--enable-scheme")]
    if schemes and not any("pytorchjob" in each.lower() for each in operator.args):
        yield f"does not run PyTorchJobs ({', '.join(schemes)})"


def _refused(case: Situation, text: str) -> Unusable:
    return Unusable("operator", f"{case.requested}: {text}; {_ALLOWED}")
