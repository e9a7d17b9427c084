"""What a rule of the policy is."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from clusters.capacity import Capacity
from clusters.pools import GpuPool, NodePool
from clusters.reach import Reach
from core.problem import Path, Problem, located
from jobs.spec import TrainingJob


@dataclass(frozen=True)
class Case:
    """A job, and what is known of its surroundings before anything is made.

    Args:
        job: What is to run.
        gpus_per_node: Of the cluster; None when that is not known.
        capacity: What the cluster has for jobs; None when that is not known.
        files: Texts that the job's program is made of, by path: of a `script` its Python files,
            of an elastic `build` those of its context, and the Dockerfile.
        pool: The cluster's nodes with GPUs; None without, or when they are not known.
        reach: The only registry that its nodes get images from; None where they get any.
        pools: All that nodes are paid for in; none where they are not known.
    """

    job: TrainingJob
    gpus_per_node: int | None = None
    capacity: Capacity | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    pool: GpuPool | None = None
    reach: Reach | None = None
    pools: tuple[NodePool, ...] = ()


@dataclass(frozen=True)
class Finding:
    """A mistake in a job.

    Args:
        path: Of the field to change, in the configuration's spelling; empty for the whole job.
        reason: The value, and why it won't do.
        remedy: What to do instead, for whoever has declared the job.
    """

    path: Path
    reason: str
    remedy: str


@dataclass(frozen=True)
class Rule:
    """A known mistake.

    Args:
        name: For people who speak of it, and its fixtures.
        pointer: Where to read more.
        find: Looks for it.
        warns: Whether a job that has it may run all the same.
    """

    name: str
    pointer: str
    find: Callable[[Case], Iterator[Finding]]
    warns: bool = False

    def problem(self, finding: Finding, key: str) -> Problem:
        """Return what the person is told of it."""
        text = f"{finding.reason}; {finding.remedy}; see {self.pointer}"
        return Problem(located(key, finding.path), text)


@dataclass(frozen=True)
class Verdict:
    """A rule's problem with a job, and the reason alone."""

    rule: Rule
    problem: Problem
    reason: str
