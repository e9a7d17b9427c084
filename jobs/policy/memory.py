"""Limits that a program would run into at once."""

from collections.abc import Iterator

from core.problem import Path
from core.quantities import cores, mebibytes, size
from jobs.policy.rule import Case, Finding, Rule
from jobs.spec.modules import MODULES
from jobs.spec.resources import Role, roles, share


def _less_than_needed(case: Case) -> Iterator[Finding]:
    job = case.job
    if job.module is None:
        return
    needed = size(MODULES[job.module].memory) * job.processes_per_node
    for role in roles(job):
        limit = share(job, role).memory_limit
        if size(limit) < needed:
            said = job.limits is not None and job.limits.memory is not None
            field: Path = ("limits", "memory") if said else ("memory",)
            processes = job.processes_per_node
            each = f" in each of its {processes} processes" if processes > 1 else ""
            yield Finding(
                (*_of(role, case), *field),
                f"{limit} is less than {job.module} needs{each}: {mebibytes(needed)} in all. The "
                "kernel would end it",
                "raise it",
            )


def _limit_below_request(case: Case) -> Iterator[Finding]:
    for role in roles(case.job):
        found = share(case.job, role)
        pairs = (
            ("cpu", cores, found.cpu, found.limits.cpu),
            ("memory", size, found.memory, found.limits.memory),
            ("ephemeralStorage", size, found.ephemeral_storage, found.limits.ephemeral_storage),
        )
        for name, amount, request, limit in pairs:
            if limit is not None and request is not None and amount(limit) < amount(request):
                reason = f"{limit} is less than the {request} that it asks for"
                yield Finding((*_of(role, case), "limits", name), reason, "raise it")


def _of(role: Role, case: Case) -> Path:
    """Return where the fields of a role are: the Master's own, where it differs."""
    return ("master",) if role == "Master" and case.job.master is not None else ()


LESS_THAN_NEEDED = Rule("less-than-needed", "docs/resources.md#resources", _less_than_needed)
LIMIT_BELOW_REQUEST = Rule(
    "limit-below-request",
    "https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/",
    _limit_below_request,
)
