"""What a demo trains, and its start on a fixed world."""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from torch import nn

from slipway.events import Events
from slipway_trainer.data.datasets import Data
from slipway_trainer.demos import loop
from slipway_trainer.training import distributed, report


@dataclass(frozen=True)
class Task:
    """What tells one demo from another; `net` takes the number of classes."""

    net: Callable[[int], nn.Module]
    load: Callable[..., Data]
    model_file: str
    by_class: bool = False
    """Find out each class's accuracy besides."""


def main(parser: argparse.ArgumentParser, task: Callable[[argparse.Namespace], Task]) -> None:
    """Train on a fixed world as the command line says, leave the result behind, and end."""

    def train(events: Events) -> dict[str, Any]:
        started, args = time.monotonic(), parser.parse_args()
        # Join before anything else can fail: then the other ranks notice at once if this one does.
        use_cuda = not args.no_cuda
        args.backend = args.backend or distributed.default_backend(use_cuda)
        world = distributed.join(args.backend, timedelta(minutes=args.timeout), use_cuda)
        summary = loop.Training(task(args), args, events, world).run()
        return summary | {"duration_seconds": round(time.monotonic() - started, 3)}

    report.run(train)
