"""Code that the demos run first: a fast import of torch, and the command-line options."""

import argparse
import gc
import os
from pathlib import Path
from typing import Any

from slipway_trainer.training import goals

# Without garbage collection, the imports take a third less time.
gc.disable()
# Otherwise torch.optim would import _dynamo later, with garbage collection on.
import torch._dynamo  # noqa: E402, F401
import torchvision.datasets  # noqa: E402, F401

gc.freeze()
gc.enable()


def parser(program: str, documentation: str | None, **defaults: Any) -> argparse.ArgumentParser:
    """Return a parser for the demos' common options, which raises errors instead of exiting."""
    result = argparse.ArgumentParser(
        prog=f"python3 -m {program}",
        description=documentation,
        formatter_class=_Formatter,
        exit_on_error=False,
    )
    train = result.add_argument_group("training").add_argument
    train("--epochs", type=count, metavar="N", help="passes over the training set")
    train("--batch-size", type=count, metavar="N", help="samples per rank and step")
    train("--lr", "--learning-rate", type=float, metavar="X", help="learning rate for one rank; "
          "multiplied by the number of ranks")  # fmt: skip
    train("--momentum", type=float, metavar="X", help="momentum for SGD")
    train("--seed", type=int, metavar="N", help="seed for weights, sample order and dropout")
    train("--goal", type=goal, metavar="METRIC=VALUE", help="stop all ranks when a validation "
          "reaches this goal: accuracy=0.98 or above, val_loss=0.3 or below")  # fmt: skip
    train("--validate-every", type=count, metavar="STEPS", help="also validate every STEPS steps")
    train("--data", "--data-dir", type=Path, metavar="DIR", help="the data set's directory")
    train("--workers", type=int, metavar="N", help="processes that prepare batches "
          "during training; if 0, each step first prepares its own batch")  # fmt: skip
    train("--test-batch-size", type=count, metavar="N", help="samples per rank and test batch")
    train("--limit-train", type=count, metavar="N", help="train on the first N samples only")
    train("--limit-test", type=count, metavar="N", help="test on the first N samples only")

    ranks = result.add_argument_group("ranks").add_argument
    ranks("--backend", choices=("gloo", "nccl"), help="default: nccl if there is a GPU, else gloo")
    ranks("--timeout", type=float, metavar="MINUTES", help="how long to wait for other ranks, at "
          "startup and in every step")  # fmt: skip
    ranks("--no-cuda", action="store_true", help="train on the CPU even if there is a GPU")
    ranks("--threads", type=count, metavar="N", help="CPU threads for each rank: OMP_NUM_THREADS, "
          "or else the number of cores")  # fmt: skip
    ranks("--precision", choices=("auto", "float32", "bfloat16"), help="type for convolutions and "
          "matrix products; auto is bfloat16 on GPUs that support it, and on CPUs the faster type, "
          "measured at startup")  # fmt: skip
    ranks("--compile", nargs="?", const="inductor", metavar="BACKEND", help="compile the network "
          "with torch.compile (requires a C compiler)")  # fmt: skip

    out = result.add_argument_group("output").add_argument
    out("--log-interval", "--print-freq", type=count, metavar="STEPS", help="steps between reports")
    out("--output-dir", type=Path, metavar="DIR", help="folder for the model and accuracies.json")
    out("--profile", action="store_true", help="write torch.profiler traces of steps 3 to 5 "
        "to DIR/profile")  # fmt: skip

    # OpenMP reads its own variable, which may also be a list.
    cores = len(os.sched_getaffinity(0)) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    common = {
        "seed": 1, "momentum": 0.9, "workers": 0, "test_batch_size": 250, "timeout": 5.0,
        "threads": None if "OMP_NUM_THREADS" in os.environ else max(1, cores),
        "precision": "auto",
        "output_dir": Path(os.environ.get("SLIPWAY_OUTPUT_DIR", "outputs")),
    }  # fmt: skip
    result.set_defaults(**{**common, **defaults})
    return result


def count(text: str) -> int:
    """Parse an integer, which must be 1 or more."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not allowed; it must be 1 or more")
    return number


def goal(text: str) -> goals.Goal:
    """Parse a goal, such as accuracy=0.98."""
    try:
        return goals.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps line breaks in the description, and shows each option's default if it has one."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        is_plain = any(action.default is none for none in (None, False, argparse.SUPPRESS))
        return action.help if is_plain else f"{action.help} (default: %(default)s)"
