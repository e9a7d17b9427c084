"""A run's output files: model, accuracies, predictions, and torch profile.

The predictions page shows a confusion matrix for the test set, and some of the rank's test images.
"""

import base64
import io
import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.profiler import profile, schedule, supported_activities, tensorboard_trace_handler
from torchvision.transforms.v2.functional import to_pil_image

from slipway_trainer.data.datasets import Data

_SAVED = ("epoch_accuracies", "accuracy", "top5_accuracy", "class_accuracies")
PREDICTIONS = "predictions.html"
_HEAD = """<!doctype html><meta charset=utf-8><title>Predictions</title><style>
body {font: 14px sans-serif; margin: 1em; color: #111; background: #fff}
table {border-collapse: collapse; margin: 1em 0}
caption {text-align: left; font-weight: bold}
th, td {border: 1px solid #bbb; padding: 2px 6px; text-align: right}
img {width: 56px; image-rendering: pixelated; vertical-align: middle}
</style>
"""


@dataclass(frozen=True)
class Task:
    """The parts specific to one demo; `net` takes the number of classes."""

    net: Callable[[int], nn.Module]
    load: Callable[..., Data]
    model_file: str
    by_class: bool = False
    """True to measure accuracy by class, too."""


def save(path: Path, net: nn.Module, summary: dict[str, Any]) -> None:
    """Write the net's weights to `path` and the accuracies beside it, each atomically."""
    weights = {name: value.cpu().contiguous() for name, value in net.state_dict().items()}
    _replace(path, lambda part: torch.save(weights, part))
    accuracies = json.dumps({name: summary[name] for name in _SAVED if name in summary}, indent=2)
    _replace(path.with_name("accuracies.json"), lambda part: part.write_text(accuracies + "\n"))


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    part = path.with_name(f".{path.name}.part")
    write(part)
    part.replace(path)


def profiled(directory: Path | None, rank: int) -> AbstractContextManager[profile | None]:
    """Return a context that traces this rank's first steps to `directory`, unless that is None."""
    if directory is None:
        return nullcontext()
    running: AbstractContextManager[profile] = profile(
        activities=supported_activities(),
        schedule=schedule(wait=1, warmup=1, active=3, repeat=1),
        on_trace_ready=tensorboard_trace_handler(str(directory), worker_name=f"rank{rank}"),
    )
    return running


class Predictions:
    """A metric for one validation that keeps the predictions for this rank's `indices` (n,)."""

    name = "confusion"

    def __init__(self, classes: Sequence[str], indices: Tensor) -> None:
        self.classes, self.indices = classes, indices
        self.matrix: list[list[int]] = []
        """The number of images by class (row) and prediction (column), over all ranks."""
        self._predicted: list[Tensor] = []
        # A larger matrix would be unreadable, and expensive to send to other ranks.
        self.size = len(classes) ** 2 if len(classes) <= 100 else 0

    def counts(self, output: Tensor, target: Tensor) -> Tensor:
        share, predicted = output.softmax(dim=1).max(dim=1)
        self._predicted.append(torch.stack([share.double(), predicted.double(), target.double()]))
        counts = torch.zeros(self.size, dtype=torch.int64, device=target.device)
        if self.size == 0:
            return counts
        return counts.index_add(0, target * len(self.classes) + predicted, torch.ones_like(target))

    def value(self, counts: Sequence[float]) -> float:
        """Store the confusion matrix from `counts`; return the number of images in it."""
        width, numbers = len(self.classes), [int(count) for count in counts]
        self.matrix = [numbers[n : n + width] for n in range(0, len(numbers), width)]
        return sum(numbers)

    def save(self, path: Path, data: Data) -> None:
        """Write the predictions page to `path`; `data` is the test set."""
        table = self._table() if self.matrix else ""
        samples = self._samples(data) if self._predicted else ""
        path.write_text(f"{_HEAD}{table}{samples}")

    def _table(self) -> str:
        head = "".join(f"<th scope=col>{escape(name)}" for name in self.classes)
        rows = [f"<tr><th>class \\ predicted{head}"]
        for name, counts in zip(self.classes, self.matrix, strict=True):
            most = max(1, *counts)
            cells = (
                f'<td style="background: rgba(42, 111, 187, {count / most / 2:.2f})">{count}'
                for count in counts
            )
            rows.append(f"<tr><th scope=row>{escape(name)}{''.join(cells)}")
        return f"<table><caption>Confusion matrix</caption>{''.join(rows)}</table>\n"

    def _samples(self, data: Data) -> str:
        share, predicted, target = torch.cat(self._predicted, dim=1).cpu()
        is_right = predicted == target
        # The most confident predictions come first.
        chosen = (is_right * 2 - share).argsort()[:20]
        pictures, _ = data.placed(*data[self.indices[chosen]])
        rows = ["<tr><th>image<th>class<th>predicted<th>probability<th>result"]
        for number, picture in zip(chosen.tolist(), pictures.cpu(), strict=True):
            names = (escape(self.classes[int(each[number])]) for each in (target, predicted))
            verdict = "right" if is_right[number] else "wrong"
            rows.append(
                f'<tr><td><img alt="" src="data:image/png;base64,{_png(picture)}">'
                f"<td>{'<td>'.join(names)}<td>{share[number]:.3f}<td>{verdict}"
            )
        return f"<table><caption>Samples, wrong ones first</caption>{''.join(rows)}</table>\n"


def _png(picture: Tensor) -> str:
    """Return an image (colors, height, width) with any value range as a PNG file in base64."""
    low, high = picture.min(), picture.max()
    file = io.BytesIO()
    to_pil_image((picture - low) / (high - low).clamp(min=1e-6)).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()
