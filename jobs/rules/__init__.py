"""Known mistakes in jobs, looked for before anything is made."""

from collections.abc import Sequence

from jobs.model.job import TrainingJob
from jobs.rules import containers, distributed, nodes
from jobs.rules.rule import Finding, Rule, Surroundings

__all__ = ["RULES", "Rule", "Surroundings", "mistakes"]

RULES: Sequence[Rule] = [
    each
    for module in (distributed, nodes, containers)
    for each in vars(module).values()
    if isinstance(each, Rule)
]


def mistakes(job: TrainingJob, around: Surroundings) -> list[tuple[Rule, Finding]]:
    """Return everything that the rules find in a job."""
    found = ((rule, finding) for rule in RULES for finding in rule.find(job, around))
    # What is wrong with Master and Workers alike is reported once.
    return list(dict.fromkeys(found))
