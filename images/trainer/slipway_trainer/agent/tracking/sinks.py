"""The objects that are tracked for a job (a run and a data set), and the sinks for them."""

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
"""The class for each kind of sink, as `module.Class` in this package."""
Texts = Mapping[str, str]
_MOST_BYTES, _MOST_FILES = 2**30, 10_000
"""The largest directory to compute a checksum for, which takes a second of CPU time per GB."""


class RefusedError(Exception):
    """The server refuses the data permanently."""


@dataclass(frozen=True)
class Run:
    """A run to track, from the pod's environment.

    `experiment` names the stack and job; `rank` is the rank of the pod's first process. The
    server's URL is `url` for pods and `address` for browsers. `facts` contains `revision`,
    `image`, `data` and `settings`.
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
        """True if this pod creates the run."""
        return self.rank == 0

    @classmethod
    def from_environment(cls) -> "Run":
        variable = os.environ.get
        url = variable("SLIPWAY_TRACKING_URL", "").rstrip("/")
        return cls(
            id=variable("SLIPWAY_RUN_ID", "run"),
            experiment=variable("SLIPWAY_TRACKING_EXPERIMENT", "slipway"),
            rank=own_rank(),
            url=url,
            address=variable("SLIPWAY_TRACKING_ADDRESS", url).rstrip("/"),
            facts=json_map(variable("SLIPWAY_TRACKING_FACTS", "")),
            outputs=Path(variable("SLIPWAY_OUTPUT_DIR", "outputs")),
        )


@dataclass(frozen=True)
class Dataset:
    """A run's data set; `digest` is its sha256, or empty if unknown."""

    name: str
    digest: str = ""
    source: str = ""


class Sink(Protocol):
    """A tracking server or directory.

    Each method raises `OSError` for temporary errors, and `RefusedError` for others.
    """

    def open(self) -> str | None:
        """Create or join the run; return the URL of its page, if it has one."""

    def describe(self, params: Texts, tags: Texts, dataset: Dataset | None) -> None:
        """Record the run's parameters, tags and data set."""

    def metrics(self, points: Sequence[Point]) -> None:
        """Add metrics; some may have been sent before."""

    def artifact(self, path: Path, name: str) -> None:
        """Add a file under its path in the program's output directory."""

    def close(self, *, is_success: bool, ends_run: bool) -> None:
        """Disconnect this pod, and mark the run itself as finished if `ends_run` is set."""


def sink_of(run: Run) -> Sink:
    """Return the sink named in SLIPWAY_TRACKING; raises `RefusedError` if it is unavailable."""
    kind = os.environ.get("SLIPWAY_TRACKING", "")
    if kind not in KINDS:
        raise RefusedError(f"SLIPWAY_TRACKING={kind} is not one of {', '.join(KINDS)}")
    try:
        sink: Sink = resolve_name(f"slipway_trainer.agent.tracking.{KINDS[kind]}")(run)
    except ModuleNotFoundError as error:
        raise RefusedError(f"{error}; add {error.name} to the job's `requirements`") from None
    return sink


def declared_dataset(data: Any) -> Dataset | None:
    """Return the data set in a job's `data`, a map with `url` and `sha256`, if it has a URL."""
    if not isinstance(data, Mapping) or "url" not in data:
        return None
    url = str(data["url"])
    name = url.partition("?")[0].rstrip("/").rpartition("/")[2]
    return Dataset(name or url, str(data.get("sha256", "")), url)


def dataset_in_directory(started: Mapping[str, Any]) -> Dataset | None:
    """Return the data set in the directory that is `data` in a `started` event, or None."""
    directory = Path(str(started.get("data")))
    try:
        if not directory.is_dir():
            return None
        name = about(directory).get("name", directory.name)
        return Dataset(str(name), _digest(directory), str(directory))
    except (OSError, ValueError):
        return None


def _digest(directory: Path) -> str:
    """Return the sha256 of `sha256sum`'s output for a directory's files, sorted by name.

    Return an empty string if the directory exceeds the limits.
    """
    every = (path for path in directory.rglob("*") if path.is_file())
    files = list(islice(every, _MOST_FILES + 1))
    if len(files) > _MOST_FILES or sum(path.stat().st_size for path in files) > _MOST_BYTES:
        return ""
    lines = sha256()
    for name, path in sorted((path.relative_to(directory).as_posix(), path) for path in files):
        lines.update(f"{sha256_of(path)}  {name}\n".encode())
    return lines.hexdigest()
