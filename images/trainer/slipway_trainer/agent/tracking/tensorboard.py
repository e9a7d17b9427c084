"""TensorBoard's event files, in the directory `tensorboard` of the program's files.

The package tensorboardX writes them, which the job names in its `requirements`: torch's own writer
would import torch, and needs TensorBoard besides. https://github.com/lanpa/tensorboardX
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slipway_trainer.agent.tracking.figures import Point
from slipway_trainer.agent.tracking.sinks import Dataset, Run


class TensorBoard:
    """A pod's event files; the ranks' curves lie over one another by their names.

    `ModuleNotFoundError` is raised without the package.
    """

    def __init__(self, run: Run) -> None:
        from tensorboardX import SummaryWriter  # noqa: PLC0415 - only where it is chosen

        self._run, self._make_writer = run, SummaryWriter
        self._writer: Any = None

    def open(self) -> None:
        directory = self._run.outputs / "tensorboard" / f"pod-{self._run.rank}"
        self._writer = self._make_writer(str(directory))

    def describe(
        self, params: Mapping[str, str], tags: Mapping[str, str], dataset: Dataset | None
    ) -> None:
        known = {
            **params,
            **tags,
            **({} if dataset is None else {"dataset_sha256": dataset.digest}),
        }
        for name, text in known.items():
            self._writer.add_text(name, text)

    def metrics(self, points: Sequence[Point]) -> None:
        for point in points:
            self._writer.add_scalar(point.name, point.value, point.step, point.time / 1000)
        self._writer.flush()

    def artifact(self, path: Path, name: str) -> None:
        """Leave it: it is among the program's files already."""

    def close(self, *, is_success: bool, ends_run: bool) -> None:
        self._writer.close()
