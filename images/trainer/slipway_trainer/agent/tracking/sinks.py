"""What is tracked of a job: its run, and what it trains on; and where: which sink it has."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Protocol

from slipway.checkpoint_store import sha256_of
from slipway.events import json_map, own_rank
from slipway.termination import about
from slipway_trainer.agent.tracking.figures import Point

KINDS = {
    "mlflow": "mlflow.Mlflow",
    "wandb": "packages.Wandb",
    "tensorboard": "packages.TensorBoard",
}
"""The sinks: the module here that has each, and its class."""
Texts = Mapping[str, str]
_MOST_BYTES, _MOST_FILES = 2**30, 10_000
"""Of a directory whose checksum is calculated, which takes a second of the CPU for a GB."""


class RefusedError(Exception):
    """The server will never take this, however often it is sent."""


@dataclass(frozen=True)
class Run:
    """A run to track, as the pod's environment describes it.

    `experiment` is its stack and job, `rank` that of the pod's first process. Pods reach the server
    at `url`, people at `address`. `facts` were declared: `revision`, `image`, `data`, `settings`.
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

    @classmethod
    def from_environment(cls) -> "Run":
        known = os.environ.get
        url = known("SLIPWAY_TRACKING_URL", "").rstrip("/")
        return cls(
            id=known("SLIPWAY_RUN_ID", "run"),
            experiment=known("SLIPWAY_TRACKING_EXPERIMENT", "slipway"),
            rank=own_rank(),
            url=url,
            address=known("SLIPWAY_TRACKING_ADDRESS", url).rstrip("/"),
            facts=json_map(known("SLIPWAY_TRACKING_FACTS", "")),
            outputs=Path(known("SLIPWAY_OUTPUT_DIR", "outputs")),
        )


@dataclass(frozen=True)
class Dataset:
    """What a run trained on; the digest is a sha256, or empty where none is known."""

    name: str
    digest: str = ""
    source: str = ""


class Sink(Protocol):
    """Where a run is tracked.

    Each method raises `OSError` for what may succeed another time, else `RefusedError`.
    """

    def open(self) -> str | None:
        """Begin the run, or join it; return the address of its page, where it has one."""

    def describe(self, params: Texts, tags: Texts, dataset: Dataset | None) -> None:
        """Note what the run trains with, and on."""

    def metrics(self, points: Sequence[Point]) -> None:
        """Add metrics; what it has already may come again."""

    def artifact(self, path: Path, name: str) -> None:
        """Add a file, by its path in the directory of the program's files."""

    def close(self, *, is_success: bool, ends_run: bool) -> None:
        """End what this pod sends, and the run, unless another pod `ends_run`."""


def sink_of(run: Run) -> Sink:
    """Return the sink that SLIPWAY_TRACKING names; raise `RefusedError` where it can't be had."""
    kind = os.environ.get("SLIPWAY_TRACKING", "")
    if kind not in KINDS:
        raise RefusedError(f"SLIPWAY_TRACKING={kind} is not one of {', '.join(KINDS)}")
    try:
        sink: Sink = resolve_name(f"slipway_trainer.agent.tracking.{KINDS[kind]}")(run)
    except ModuleNotFoundError as error:
        raise RefusedError(f"{error}; name {error.name} in the job's `requirements`") from None
    return sink


def declared_dataset(data: Any) -> Dataset | None:
    """Return a job's `data`, a map of `url` and `sha256`; None without one."""
    if not isinstance(data, Mapping) or "url" not in data:
        return None
    url = str(data["url"])
    name = url.partition("?")[0].rstrip("/").rpartition("/")[2]
    return Dataset(name or url, str(data.get("sha256", "")), url)


def dataset_in_directory(started: Mapping[str, Any]) -> Dataset | None:
    """Return what lies in the directory `data` of a `started` event; None without one."""
    directory = Path(str(started.get("data")))
    try:
        if not directory.is_dir():
            return None
        name = about(directory).get("name", directory.name)
        return Dataset(str(name), _digest(directory), str(directory))
    except (OSError, ValueError):
        return None


def _digest(directory: Path) -> str:
    """Return the sha256 of `sha256sum`'s lines of the files, sorted by name; empty for too many."""
    files = (path for path in directory.rglob("*") if path.is_file())
    found = list(islice(files, _MOST_FILES + 1))
    if len(found) > _MOST_FILES or sum(path.stat().st_size for path in found) > _MOST_BYTES:
        return ""
    lines = sha256()
    for name, path in sorted((path.relative_to(directory).as_posix(), path) for path in found):
        lines.update(f"{sha256_of(path)}  {name}\n".encode())
    return lines.hexdigest()
