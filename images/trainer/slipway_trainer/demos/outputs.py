"""The files that a run leaves: its model, how good that is, and on request torch's profile."""

import json
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.profiler import profile, schedule, supported_activities, tensorboard_trace_handler

ACCURACIES = "accuracies.json"
_TOLD = ("epoch_accuracies", "accuracy", "top5_accuracy", "class_accuracies")
WAIT, WARMUP, ACTIVE = 1, 1, 3
"""Steps before the profiler runs, steps for it to settle, and steps that are in the trace."""


def prepare(directory: Path) -> None:
    """Make the directory now, so that a run doesn't fail only when it has its results."""
    directory.mkdir(parents=True, exist_ok=True)
    if not os.access(directory, os.W_OK):
        raise PermissionError(
            f"nothing can be written into --output-dir {directory}: name another directory"
        )


def save(path: Path, net: nn.Module, summary: dict[str, Any]) -> None:
    """Write the net's weights to `path` and the accuracies beside it, each of them at once."""
    weights = {name: value.cpu().contiguous() for name, value in net.state_dict().items()}
    _replace(path, lambda part: torch.save(weights, part))
    accuracies = json.dumps({name: summary[name] for name in _TOLD if name in summary}, indent=2)
    _replace(path.with_name(ACCURACIES), lambda part: part.write_text(accuracies + "\n"))


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    part = path.with_name(f".{path.name}.part")
    write(part)
    part.replace(path)


def profiled(directory: Path | None, rank: int) -> AbstractContextManager[profile | None]:
    """Return what writes a trace of this rank's first steps into `directory`, when there is one.

    The trace opens in https://ui.perfetto.dev, chrome://tracing and TensorBoard.
    """
    if directory is None:
        return nullcontext()
    running: AbstractContextManager[profile] = profile(
        activities=supported_activities(),
        schedule=schedule(wait=WAIT, warmup=WARMUP, active=ACTIVE, repeat=1),
        on_trace_ready=tensorboard_trace_handler(str(directory), worker_name=f"rank{rank}"),
    )
    return running
