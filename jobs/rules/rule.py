"""Rules, and their inputs other than the job; to add a rule, decorate a function with `rule`."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from clusters.image_registry import Registry
from clusters.nodes import Capacity, GpuPool, NodePool
from core.problem import Path, Problem, located
from jobs.model.job import TrainingJob
from jobs.model.program import Role


@dataclass(frozen=True)
class Surroundings:
    """A job's cluster and program, as far as they are known in advance; None means unknown."""

    gpus_per_node: int | None = None
    capacity: Capacity | None = None
    pool: GpuPool | None = None  # the cluster's GPU nodes; also None if it has none
    # The only registry that nodes can reach; None if they reach all.
    reach: Registry | None = None
    pools: tuple[NodePool, ...] = ()  # all pools with a price; empty if unknown
    # The program's files by path: Python files in a script or elastic build, and its Dockerfile.
    files: Mapping[str, str] = field(default_factory=dict)
    torch: str | None = None  # the version for jobs that set none; None for the default
    has_trainer: bool = True  # whether it runs the trainer image, or one based on it


@dataclass(frozen=True)
class Finding:
    """A mistake in a job."""

    path: Path  # of the field to change, as in the configuration; empty for the job itself
    reason: str  # what is wrong with its value
    remedy: str  # what to do


NO_GPUS_REMEDY = (
    "add GPUs to the cluster with its key `gpu` (aks, azure-stack) or `gpus` (kubeconfig)"
)
Findings = Iterator[Finding]
Find = Callable[[TrainingJob, Surroundings], Findings]


@dataclass(frozen=True)
class Rule:
    """A known mistake: the function that finds it, and a link to its documentation."""

    name: str
    pointer: str
    find: Find

    def problem(self, finding: Finding, key: str) -> Problem:
        """Return the message about a finding in the job at `key` in the configuration."""
        text = f"{finding.reason}; {finding.remedy}; see {self.pointer}"
        return Problem(located(key, finding.path), text)


def rule(pointer: str) -> Callable[[Find], Rule]:
    """Return a decorator that turns a function into a rule; `pointer` links to documentation."""
    return lambda find: Rule(find.__name__[1:].replace("_", "-"), pointer, find)


def place(job: TrainingJob, role: Role, *field: str) -> Path:
    """Return the path to a role's field, which is in `master` if the Master sets its own value."""
    is_own = role == "Master" and getattr(job.master, field[0], None) is not None
    return ("master", *field) if is_own else field
