"""What a rule is, and what it knows besides the job: a new one is a function with `rule`."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from clusters.image_registry import Registry
from clusters.nodes import Capacity, GpuPool, NodePool
from core.problem import Path, Problem, located
from jobs.model.job import TrainingJob
from jobs.model.program import Role


@dataclass(frozen=True)
class Surroundings:
    """What is known of a job's cluster and program before anything is made; None is not known."""

    gpus_per_node: int | None = None
    capacity: Capacity | None = None
    pool: GpuPool | None = None  # the cluster's nodes with GPUs; None also without any
    # The only one that nodes get images from; None where they get any.
    reach: Registry | None = None
    pools: tuple[NodePool, ...] = ()  # all whose nodes are paid for; empty where that is not known
    # Texts of the program, by path: a script's Python files, an elastic build's and its Dockerfile.
    files: Mapping[str, str] = field(default_factory=dict)
    torch: str | None = None  # the version of jobs that ask for none; None for the default
    has_trainer: bool = True  # whether it runs the trainer's image, or one that is built from it


@dataclass(frozen=True)
class Finding:
    """A mistake in a job."""

    path: Path  # of the field to change, in the configuration's spelling; empty for the job itself
    reason: str  # what is wrong with its value
    remedy: str  # what to do


NO_GPUS_REMEDY = (
    "let the cluster have some: `gpu` of the kinds aks and azure-stack, `gpus` of kubeconfig"
)
Findings = Iterator[Finding]
Find = Callable[[TrainingJob, Surroundings], Findings]


@dataclass(frozen=True)
class Rule:
    """A known mistake: how it is found, and where to read more."""

    name: str
    pointer: str
    find: Find

    def problem(self, finding: Finding, key: str) -> Problem:
        """Return the message about a finding in the job at `key` of the configuration."""
        text = f"{finding.reason}; {finding.remedy}; see {self.pointer}"
        return Problem(located(key, finding.path), text)


def rule(pointer: str) -> Callable[[Find], Rule]:
    """Make a rule, of the same name, of the function that looks for its mistake."""
    return lambda find: Rule(find.__name__[1:].replace("_", "-"), pointer, find)


def place(job: TrainingJob, role: Role, *field: str) -> Path:
    """Return where a role's field is declared: the Master's own, where it has one."""
    is_own = role == "Master" and getattr(job.master, field[0], None) is not None
    return ("master", *field) if is_own else field
