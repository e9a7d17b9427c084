"""Runs elastic jobs in the image's own Python, one process per worker, and says how they went."""

import json
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.trainer.conftest import RUNNERS, Opened

MNIST = ("-m", "slipway_trainer.mnist_elastic", "--log-interval", "1")
_LIMIT_SECONDS = 600
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
class Life:
    """One process: the exit code, None when it had to be killed, and what it left behind."""

    code: int | None
    events: list[dict[str, Any]]
    errors: str
    message: dict[str, Any]

    def of(self, event: str) -> list[dict[str, Any]]:
        """Return the events of one kind."""
        return [each for each in self.events if each["event"] == event]


@dataclass(frozen=True)
class Outcome:
    """How a job went: its processes by worker and life, and when the blows fell."""

    lives: dict[tuple[int, int], Life]
    struck: list[float]

    @property
    def completed(self) -> list[Life]:
        """Those that ended well."""
        return [life for life in self.lives.values() if life.code == 0]

    def seconds_to_next_step(self) -> float:
        """Return the time from the last blow to the next step that a survivor made."""
        times = [_seconds(step) for life in self.completed for step in life.of("step")]
        return min(time for time in times if time > self.struck[-1]) - self.struck[-1]

    def longest_pause(self) -> float:
        """Return the longest time in which no worker made a step, from first step to last."""
        times = sorted(_seconds(step) for life in self.lives.values() for step in life.of("step"))
        return max(after - before for before, after in pairwise(times))


def run(
    image: Opened, directory: Path, job: Job, more: Mapping[Path, str] | None = None
) -> Outcome:
    """Run a job, with `more` mounted; `directory` takes what its processes leave behind."""
    directory.chmod(0o777)
    shutil.copytree(_SCRIPTS, directory / "scripts")
    (directory / "plan.json").write_text(json.dumps(asdict(job)))
    mounts = {directory: "/out", **RUNNERS, **(more or {})}
    limit = f"LIMIT_SECONDS={_LIMIT_SECONDS}"
    command = ("env", limit, "python3", "/elastic_ranks.py", "/out/plan.json")
    image.run(*command, mounts=mounts, limit=_LIMIT_SECONDS + 30)
    ends = json.loads((directory / "ends.json").read_text())
    lives = {}
    for path in sorted(directory.glob("*.out")):
        worker, life = path.stem.split(".")
        lines = path.read_text().splitlines()
        lives[int(worker), int(life)] = Life(
            ends["codes"].get(path.stem),
            [json.loads(line) for line in lines if line.startswith("{")],
            path.with_suffix(".err").read_text(),
            json.loads(path.with_suffix(".termination").read_text() or "{}"),
        )
    return Outcome(lives, [blow["time"] for blow in ends["blows"]])


def _seconds(event: dict[str, Any]) -> float:
    return datetime.fromisoformat(event["time"]).timestamp()
