"""Weights & Biases and TensorBoard, through their packages in the job's `requirements`.

Each pod has its own W&B run, in a group named after the run's id:
https://docs.wandb.ai/guides/track/log/distributed-training/
tensorboardX, which needs no torch, writes event files: https://github.com/lanpa/tensorboardX
"""

import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from slipway_trainer.agent.tracking.figures import Point
from slipway_trainer.agent.tracking.sinks import Dataset, Run, Texts


class Wandb:
    """A pod's W&B run; raises `ModuleNotFoundError` if the package is not installed."""

    def __init__(self, run: Run) -> None:
        import wandb  # noqa: PLC0415 - only if it is selected

        self._run, self._package = run, wandb
        self._wandb_run: Any = None

    def open(self) -> str | None:
        run = self._run
        if run.url:
            os.environ.setdefault("WANDB_BASE_URL", run.url)
        name = f"{run.id}-rank-{run.rank}"
        self._wandb_run = self._package.init(
            project=run.experiment.replace("/", "-"), group=run.id, id=name, name=name,
            resume="allow", dir=gettempdir(),
            settings=self._package.Settings(console="off", silent=True, x_disable_stats=True),
        )  # fmt: skip
        # Each rank's events have their own steps, so the step may decrease.
        self._wandb_run.define_metric("*", step_metric="step")
        address: str | None = self._wandb_run.url
        return address

    def describe(self, params: Texts, tags: Texts, dataset: Dataset | None) -> None:
        data = {} if dataset is None else {"data": vars(dataset)}
        self._wandb_run.config.update({**params, **tags, **data}, allow_val_change=True)

    def metrics(self, points: Sequence[Point]) -> None:
        for point in points:
            self._wandb_run.log({point.name: point.value, "step": point.step})

    def artifact(self, path: Path, name: str) -> None:
        self._wandb_run.save(str(path), base_path=str(self._run.outputs), policy="now")

    def close(self, *, is_success: bool, ends_run: bool) -> None:
        self._wandb_run.finish(exit_code=0 if is_success else 1)


class TensorBoard:
    """A pod's event files; raises `ModuleNotFoundError` if the package is not installed."""

    def __init__(self, run: Run) -> None:
        from tensorboardX import SummaryWriter  # noqa: PLC0415 - only if it is selected

        self._run, self._make_writer = run, SummaryWriter
        self._writer: Any = None

    def open(self) -> None:
        directory = self._run.outputs / "tensorboard" / f"pod-{self._run.rank}"
        self._writer = self._make_writer(str(directory))

    def describe(self, params: Texts, tags: Texts, dataset: Dataset | None) -> None:
        data = {} if dataset is None else {"dataset_sha256": dataset.digest}
        for name, text in {**params, **tags, **data}.items():
            self._writer.add_text(name, text)

    def metrics(self, points: Sequence[Point]) -> None:
        for point in points:
            self._writer.add_scalar(point.name, point.value, point.step, point.time / 1000)
        self._writer.flush()

    def artifact(self, path: Path, name: str) -> None:
        """Do nothing, since the file is already among the program's files."""

    def close(self, *, is_success: bool, ends_run: bool) -> None:
        self._writer.close()
