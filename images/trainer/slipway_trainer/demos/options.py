"""The command line that the demos have in common."""

import argparse
import os
from pathlib import Path
from typing import Any

from slipway_trainer import goals


def parser(program: str, documentation: str | None, **defaults: Any) -> argparse.ArgumentParser:
    """Return a parser with the options of every demo; it raises for an argument that is wrong.

    `program` is the module, as `python3 -m` takes it, with its documentation, and `defaults` are
    its own, of options and of what it adds.
    """
    made = argparse.ArgumentParser(
        prog=f"python3 -m {program}",
        description=documentation,
        formatter_class=_Formatter,
        exit_on_error=False,
    )
    train = made.add_argument_group("training").add_argument
    train("--epochs", type=count, metavar="N", help="times that each sample is trained on")
    train("--batch-size", type=count, metavar="N", help="samples per rank and step")
    train("--lr", "--learning-rate", type=float, metavar="X", help="learning rate for one rank; it "
          "is multiplied by their number")  # fmt: skip
    train("--momentum", type=float, metavar="X", help="of SGD")
    train("--seed", type=int, metavar="N", help="of the weights, the order of samples and dropout")
    train("--goal", type=goal, metavar="METRIC=VALUE", help="stop all ranks when a validation "
          "finds it: accuracy=0.98 or above, val_loss=0.3 or below")  # fmt: skip
    train("--validate-every", type=count, metavar="STEPS", help="validate within epochs, too")
    train("--data", "--data-dir", type=Path, metavar="DIR", help="where the data set is")
    train("--workers", type=int, metavar="N", help="threads, of images processes, that get "
          "batches ready while another is trained on; with 0 each step does so first")  # fmt: skip
    train("--test-batch-size", type=count, metavar="N", help="samples per rank in a validation")
    train("--limit-train", type=count, metavar="N", help="train on the first N samples only")
    train("--limit-test", type=count, metavar="N", help="test on the first N samples only")

    ranks = made.add_argument_group("ranks").add_argument
    ranks("--backend", type=backend, metavar="NAME", help="gloo or nccl; nccl where "
          "there is a GPU unless said")  # fmt: skip
    ranks("--timeout", type=float, metavar="MINUTES", help="how long to wait for other ranks, at "
          "the start and in every step")  # fmt: skip
    ranks("--no-cuda", action="store_true", help="train on the CPU although there is a GPU")
    ranks("--threads", type=count, metavar="N", help="CPU threads of each rank")
    ranks("--precision", choices=("auto", "float32", "bfloat16"), help="what convolutions and "
          "products are calculated with; auto is bfloat16 on GPUs that have it, and on CPUs "
          "measures at the start which is faster")  # fmt: skip
    ranks("--compile", nargs="?", const="inductor", metavar="BACKEND", help="have torch.compile "
          "make the network's kernels, which takes a C compiler")  # fmt: skip

    out = made.add_argument_group("output").add_argument
    out(
        "--log-interval",
        "--print-freq",
        type=count,
        metavar="STEPS",
        help="between two step events",
    )
    out("--output-dir", type=Path, metavar="DIR", help="for the model and accuracies.json")
    out("--profile", action="store_true", help="write torch.profiler's traces of steps 3 to 5 "
        "into DIR/profile")  # fmt: skip

    made.set_defaults(
        seed=1, momentum=0.9, workers=0, test_batch_size=250, timeout=5.0,
        threads=_own_cores(), precision="auto",
        output_dir=Path(os.environ.get("SLIPWAY_OUTPUT_DIR", "outputs")),
        **defaults,
    )  # fmt: skip
    return made


def count(text: str) -> int:
    """Return the number that `text` is, when it is 1 or more."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not allowed, it takes 1 or more")
    return number


def goal(text: str) -> goals.Goal:
    """Return the goal that `text` names."""
    try:
        return goals.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def backend(text: str) -> str:
    """Return the name of a process group's backend that torch has here."""
    if text == "mpi":
        raise argparse.ArgumentTypeError(
            "mpi is not allowed: its ranks have to be started by mpirun, which neither torchrun "
            "nor a PyTorchJob is; use gloo, or nccl with GPUs"
        )
    if text not in {"gloo", "nccl"}:
        raise argparse.ArgumentTypeError(f"{text} is not allowed, it takes gloo or nccl")
    return text


def _own_cores() -> int:
    """Return how many cores this rank has for itself: OMP_NUM_THREADS, or its share of all.

    OpenMP takes lists as well, and passes over what it can't read; so does this.
    """
    told = _positive(os.environ.get("OMP_NUM_THREADS", ""))
    ranks = _positive(os.environ.get("LOCAL_WORLD_SIZE", "")) or 1
    return told or max(1, len(os.sched_getaffinity(0)) // ranks)


def _positive(text: str) -> int | None:
    """Return the number from 1 that `text` is, or that a list in it begins with."""
    first = text.partition(",")[0].strip()
    return int(first) or None if first.isdecimal() else None


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps a description's lines, and tells each option's default when it has one."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        is_plain = any(action.default is none for none in (None, False, argparse.SUPPRESS))
        return action.help if is_plain else f"{action.help} (default: %(default)s)"
