"""The start of a demo on a fixed world."""

import argparse
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from slipway.events import Events
from slipway_trainer.demos import loop
from slipway_trainer.demos.outputs import Task
from slipway_trainer.training import distributed, report


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
