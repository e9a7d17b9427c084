"""What a rule is, and what it knows besides the job: a new one is a function with `rule`."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from clusters.image_registry import Registry
from clusters.nodes import Capacity, GpuPool, NodePool
from core.problem import Path, Problem, located
from jobs.model.job import TrainingJob
from jobs.model.replicas import Role


@dataclass(frozen=True)
class Surroundings:
    """What is known of a job's cluster and program before anything is made; None is not known.

    Args:
        pool: The cluster's nodes with GPUs; None also without any.
        reach: The only registry that its nodes get images from; None where they get any.
        pools: All pools whose nodes are paid for; empty where they are not known.
        files: Texts that the job's program is made of, by path: of a `script` its Python files,
            of an elastic `build` those of its context, and the Dockerfile.
        torch: The version that jobs have which ask for none; None for the default.
        has_trainer: Whether the job runs the trainer's image, or one that is built from it.
    """

    gpus_per_node: int | None = None
    capacity: Capacity | None = None
    pool: GpuPool | None = None
    reach: Registry | None = None
    pools: tuple[NodePool, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    torch: str | None = None
    has_trainer: bool = True


@dataclass(frozen=True)
class Finding:
    """A mistake in a job: the field to change, what is wrong with its value, and what to do.

    The path is in the configuration's spelling, and empty for the job itself.
    """

    path: Path
    reason: str
    remedy: str


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
