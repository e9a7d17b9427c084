"""Jobs for which there is no room, or nobody who keeps it."""

from collections import Counter
from collections.abc import Iterator

from core.quantities import gibibytes
from jobs.placement import fits, shares
from jobs.policy.gpus import are_short
from jobs.policy.rule import Case, Finding, Rule
from jobs.spec.resources import GPU


def _more_than_the_cluster(case: Case) -> Iterator[Finding]:
    wanted = shares(case.job)
    if case.capacity is None or fits(wanted, case.capacity):
        return
    if are_short(case) or (case.job.backend == "nccl" and case.capacity.gpus == 0):
        return  # Another rule tells it, and better.
    kinds = Counter((each.cpu, each.memory, each.gpus) for each in wanted)
    listed = " and ".join(
        f"{count} x {cpu} cores, {memory}{f', {gpus} x {GPU}' if gpus else ''}"
        for (cpu, memory, gpus), count in kinds.items()
    )
    cores = sum(each.cores for each in wanted)
    memory = gibibytes(sum(each.bytes for each in wanted))
    yield Finding(
        (),
        f"its replicas ask for {listed}, together {float(cores):g} cores and {memory}, and the "
        f"cluster could never hold them at the same time: it is {case.capacity}",
        "ask for less `workers`, `cpu`, `memory` or `gpus`",
    )


def _gang_scheduling(case: Case) -> Iterator[Finding]:
    if case.job.gang_scheduling:
        yield Finding(
            ("gangScheduling",),
            "needs a scheduler that places all pods of a job or none (Volcano, or the coscheduling "
            "plugin), which this stack does not install",
            "leave it out: jobs that would not find room beside each other run one after the other "
            "anyway",
        )


MORE_THAN_THE_CLUSTER = Rule(
    "more-than-the-cluster",
    "https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/",
    _more_than_the_cluster,
)
GANG_SCHEDULING = Rule(
    "gang-scheduling",
    "https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/job-scheduling/",
    _gang_scheduling,
)
