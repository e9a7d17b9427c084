"""The files that a run leaves: its model, and how good that is."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

ACCURACIES = "accuracies.json"
_TOLD = ("epoch_accuracies", "accuracy", "top5_accuracy", "class_accuracies")


def prepare(directory: Path) -> None:
    """Make the directory now, so that a run doesn't fail only when it has its results.

    Raises:
        PermissionError: nothing can be written there.
    """
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
