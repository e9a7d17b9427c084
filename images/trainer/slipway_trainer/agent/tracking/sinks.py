"""What a tracking server is to the sender, and which one a job has."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from slipway.events import own_rank
from slipway_trainer.agent.tracking.dataset import Dataset
from slipway_trainer.agent.tracking.figures import Point


class RefusedError(Exception):
    """The server will never take this, however often it is sent."""


@dataclass(frozen=True)
class Run:
    """A run to track, as the pod's environment describes it.

    Args:
        id: The submission's: SLIPWAY_RUN_ID.
        experiment: Its stack and job.
        rank: Of the pod's first process; rank 0's pod begins the run, the others join it.
        url: Of the server, as pods reach it.
        address: Of the server, as people open it.
        facts: What was declared: `revision`, `image`, `data`, `settings`.
        outputs: Where the program leaves its files.
    """

    id: str
    experiment: str
    rank: int = 0
    url: str = ""
    address: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    outputs: Path = Path("outputs")

    @property
    def is_first(self) -> bool:
        """Whether this pod begins the run."""
        return self.rank == 0

    def tags(self) -> dict[str, str]:
        """Return what tells which program this run is of."""
        known = {
            name: str(self.facts[name]) for name in ("image", "revision") if name in self.facts
        }
        return {"run_id": self.id, **known}

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Run":
        """Return the run of a pod with this environment."""
        known = environment.get
        url = known("SLIPWAY_TRACKING_URL", "").rstrip("/")
        try:
            facts = json.loads(known("SLIPWAY_TRACKING_FACTS", "{}"))
        except ValueError:
            facts = {}
        return cls(
            id=known("SLIPWAY_RUN_ID", "run"),
            experiment=known("SLIPWAY_TRACKING_EXPERIMENT", "slipway"),
            rank=own_rank(environment),
            url=url,
            address=known("SLIPWAY_TRACKING_ADDRESS", url).rstrip("/"),
            facts=facts if isinstance(facts, dict) else {},
            outputs=Path(known("SLIPWAY_OUTPUT_DIR", "outputs")),
        )


class Sink(Protocol):
    """Where a run is tracked.

    Each method raises `OSError` for what may succeed another time, else `RefusedError`.
    """

    def open(self) -> str | None:
        """Begin the run, or join it; return the address of its page, where it has one."""

    def describe(
        self, params: Mapping[str, str], tags: Mapping[str, str], dataset: Dataset | None
    ) -> None:
        """Note what the run trains with, and on."""

    def metrics(self, points: Sequence[Point]) -> None:
        """Add metrics; what it has already may come again."""

    def artifact(self, path: Path, name: str) -> None:
        """Add a file, by its path in the directory of the program's files."""

    def close(self, *, is_success: bool, ends_run: bool) -> None:
        """End what this pod sends, and the run, unless another pod `ends_run`."""


KINDS = ("mlflow", "wandb", "tensorboard")


def sink_of(run: Run) -> Sink:
    """Return the sink that SLIPWAY_TRACKING names; raise `RefusedError` where it can't be had."""
    kind = os.environ.get("SLIPWAY_TRACKING", "")
    if kind not in KINDS:
        raise RefusedError(f"SLIPWAY_TRACKING={kind} is not one of {', '.join(KINDS)}")
    module = import_module(f"slipway_trainer.agent.tracking.{kind}")
    make: Callable[[Run], Sink] = module.sink
    try:
        return make(run)
    except ModuleNotFoundError as error:
        text = f"{error}; name {error.name} in the job's `requirements`"
        raise RefusedError(text) from None
