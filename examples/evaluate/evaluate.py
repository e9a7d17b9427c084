"""Find out how good a network is that another job has trained, on MNIST's test set.

SLIPWAY_INPUT_MODEL=mnist_cnn.pt python3 evaluate.py
"""

import os
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from slipway.events import Events
from slipway_trainer.data import datasets
from slipway_trainer.demos.mnist import Net
from slipway_trainer.training import report
from slipway_trainer.training.metrics import ClassAccuracy, Metric, TopKAccuracy
from slipway_trainer.training.validation import validation_round


def evaluate(events: Events) -> dict[str, Any]:
    """Return the accuracies, which become this job's result."""
    net = Net()
    net.load_state_dict(torch.load(os.environ["SLIPWAY_INPUT_MODEL"], weights_only=True))
    samples = datasets.mnist(
        Path("/data/mnist"), train=False, limit=None, device=torch.device("cpu")
    )
    batches = samples.batches(torch.arange(len(samples)), 500)
    metrics: list[Metric] = [TopKAccuracy(1), TopKAccuracy(5), ClassAccuracy(samples.classes)]
    run_id = os.environ.get("SLIPWAY_RUN_ID")
    found = validation_round(batches, net, F.cross_entropy, metrics, run_id, events.rank)
    del found["loss"]  # A result's loss is that of training.
    return {"rank": events.rank, "world_size": 1, "dataset": samples.name, **found}


if __name__ == "__main__":
    report.run(evaluate)
