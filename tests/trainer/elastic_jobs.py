"""Runs elastic jobs in the image's own Python, one process per worker, and says how they went."""

import signal
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.trainer.conftest import Ended, Opened, free_port

MNIST = ("-m", "slipway_trainer.mnist_elastic", "--log-interval", "1")
_SCRIPTS = Path(__file__).with_name("scripts")


@dataclass(frozen=True)
class Blow:
    """A signal to a worker, once some worker has told of `step`.

    After `replace` seconds a replacement starts; one that was stopped is continued.
    """

    worker: int
    step: int
    signal: int = signal.SIGKILL
    replace: float | None = None


@dataclass(frozen=True)
class Job:
    """An elastic job to run."""

    program: Sequence[str]
    blows: Sequence[Blow] = ()
    workers: int = 3
    nodes: str = "1:3"
    host: str = "127.0.0.1"
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """How a job went: its processes by worker and life."""

    lives: dict[tuple[int, int], Ended]

    @property
    def completed(self) -> list[Ended]:
        """Those that ended well."""
        return [life for life in self.lives.values() if life.code == 0]


def run(
    image: Opened, directory: Path, job: Job, more: Mapping[Path, str] | None = None
) -> Outcome:
    """Run a job, with `more` mounted; `directory` takes what its processes leave behind."""
    first = free_port(job.workers)
    common = {
        "OMP_NUM_THREADS": "1",
        "SLIPWAY_ELASTIC_PEERS": ",".join(f"{job.host}:{first + n}" for n in range(job.workers)),
        "PET_NNODES": job.nodes,
        **job.env,
    }
    plan = {
        "programs": [job.program] * job.workers,
        "env": [common | {"SLIPWAY_ELASTIC_INDEX": str(index)} for index in range(job.workers)],
        "blows": [{**asdict(blow), "delay": 0} for blow in job.blows],
    }
    ended = image.start(directory, plan, {}, {_SCRIPTS: "/scripts", **(more or {})})
    return Outcome({(int(name[0]), int(name[2])): each for name, each in ended.items()})
