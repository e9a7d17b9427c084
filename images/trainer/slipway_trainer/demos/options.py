"""The start of the demos: a fast import of torch, and their command line."""

import argparse
import gc
import os
from pathlib import Path
from typing import Any

from slipway_trainer.training import goals

# Without garbage collection the imports take a third less time.
gc.disable()
# torch.optim would import _dynamo later, with the collector on.
import torch._dynamo  # noqa: E402, F401
import torchvision.datasets  # noqa: E402, F401

gc.freeze()
gc.enable()


def parser(program: str, documentation: str | None, **defaults: Any) -> argparse.ArgumentParser:
    """Return a parser with the common options of the demos, which raises for wrong arguments."""
    result = argparse.ArgumentParser(
        prog=f"python3 -m {program}",
        description=documentation,
        formatter_class=_Formatter,
        exit_on_error=False,
    )
    train = result.add_argument_group("training").add_argument
    train("--epochs", type=count, metavar="N", help="times that each sample is trained on")
    train("--batch-size", type=count, metavar="N", help="samples per rank and step")
    train("--lr", "--learning-rate", type=float, metavar="X", help="learning rate for one rank; it "
          "is multiplied by their number")  # fmt: skip
    train("--momentum", type=float, metavar="X", help="of SGD")
    train("--seed", type=int, metavar="N", help="of the weights, the order of samples and dropout")
    train("--goal", type=goal, metavar="METRIC=VALUE", help="stop all ranks when a validation "
          "reaches it: accuracy=0.98 or above, val_loss=0.3 or below")  # fmt: skip
    train("--validate-every", type=count, metavar="STEPS", help="validate within epochs, too")
    train("--data", "--data-dir", type=Path, metavar="DIR", help="where the data set is")
    train("--workers", type=int, metavar="N", help="processes that get batches "
          "ready while another is trained on; with 0 each step does so first")  # fmt: skip
    train("--test-batch-size", type=count, metavar="N", help="samples per rank in a validation")
    train("--limit-train", type=count, metavar="N", help="train on the first N samples only")
    train("--limit-test", type=count, metavar="N", help="test on the first N samples only")

    ranks = result.add_argument_group("ranks").add_argument
    ranks("--backend", choices=("gloo", "nccl"), help="by default nccl with a GPU, else gloo")
    ranks("--timeout", type=float, metavar="MINUTES", help="how long to wait for other ranks, at "
          "the start and in every step")  # fmt: skip
    ranks("--no-cuda", action="store_true", help="train on the CPU although there is a GPU")
    ranks("--threads", type=count, metavar="N", help="CPU threads of each rank: OMP_NUM_THREADS, "
          "or as many as cores")  # fmt: skip
    ranks("--precision", choices=("auto", "float32", "bfloat16"), help="type for convolutions and "
          "products; auto is bfloat16 on GPUs that support it, and on CPUs the faster one, which "
          "is measured at the start")  # fmt: skip
    ranks("--compile", nargs="?", const="inductor", metavar="BACKEND", help="have torch.compile "
          "make the network's kernels, which takes a C compiler")  # fmt: skip

    out = result.add_argument_group("output").add_argument
    out("--log-interval", "--print-freq", type=count, metavar="STEPS", help="between step events")
    out("--output-dir", type=Path, metavar="DIR", help="for the model and accuracies.json")
    out("--profile", action="store_true", help="write torch.profiler's traces of steps 3 to 5 "
        "into DIR/profile")  # fmt: skip

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
    """Parse a number of 1 or more."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not allowed; it takes 1 or more")
    return number


def goal(text: str) -> goals.Goal:
    """Parse a goal."""
    try:
        return goals.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps a description's lines, and shows each option's default if it has one."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        is_plain = any(action.default is none for none in (None, False, argparse.SUPPRESS))
        return action.help if is_plain else f"{action.help} (default: %(default)s)"
