"""Known mistakes, looked for before anything is made: a new one is a function and a line here."""

from collections.abc import Sequence

from jobs.policy import (
    backends,
    cores,
    downloads,
    elastic,
    gpus,
    images,
    memory,
    outputs,
    restarts,
    room,
)
from jobs.policy.rule import Case, Rule, Verdict

__all__ = ["RULES", "Case", "Rule", "Verdict", "judge"]

RULES: Sequence[Rule] = (
    backends.NCCL_WITHOUT_GPUS,
    backends.MPI,
    backends.GLOO_INTERFACE,
    gpus.NONE_AT_ALL,
    gpus.BEYOND_A_NODE,
    gpus.BEYOND_THE_POOL,
    cores.BEYOND_A_NODE,
    restarts.EXIT_CODE_WITH_BACKOFF,
    restarts.ALWAYS,
    elastic.NO_RENDEZVOUS,
    elastic.PROGRAM_UNSEEN,
    elastic.TWO_WORLDS,
    elastic.SEVERAL_PROCESSES,
    elastic.NO_RANK,
    room.MORE_THAN_THE_CLUSTER,
    room.GANG_SCHEDULING,
    images.UNPINNED,
    images.OUT_OF_REACH,
    memory.LESS_THAN_NEEDED,
    memory.LIMIT_BELOW_REQUEST,
    outputs.NOT_KEPT,
    outputs.CUT_SHORT,
    downloads.IN_EVERY_RANK,
)


def judge(case: Case, key: str) -> list[Verdict]:
    """Return everything that the rules find in a job, declared at `key`."""
    found = (
        Verdict(rule, rule.problem(finding, key), finding.reason)
        for rule in RULES
        for finding in rule.find(case)
    )
    # What is wrong with Master and Workers alike is told once.
    return list(dict.fromkeys(found))
