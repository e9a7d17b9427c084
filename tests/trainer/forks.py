"""Starts Python programs as forks of this process, which has imported torch: that takes 2 s.

Runs inside the image, on its Python.
"""

import faulthandler
import multiprocessing
import os
import runpy
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.context import ForkProcess
from pathlib import Path

import slipway_trainer.demos.options  # noqa: F401


def start(program: Sequence[str], environment: Mapping[str, str], place: Path) -> ForkProcess:
    """Start what `python3` would with these arguments; it writes to `place`.out and `place`.err."""
    process = multiprocessing.get_context("fork").Process(
        target=_become, args=(program, environment, place)
    )
    process.start()
    return process


def send(process: ForkProcess, number: int) -> None:
    """Send a signal to a process, unless it has ended."""
    if process.exitcode is None and process.pid is not None:
        os.kill(process.pid, number)


def _become(program: Sequence[str], environment: Mapping[str, str], place: Path) -> None:
    for number, suffix in ((1, "out"), (2, "err")):
        with Path(f"{place}.{suffix}").open("wb") as file:
            os.dup2(file.fileno(), number)
    os.environ.clear()
    os.environ.update(environment)
    if "PYTHONFAULTHANDLER" in environment:
        faulthandler.enable()
    try:
        if program[0] == "-m":
            sys.argv = list(program[1:])
            sys.path[0] = str(Path.cwd())
            runpy.run_module(program[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = list(program)
            sys.path[0] = str(Path(program[0]).parent)
            runpy.run_path(program[0], run_name="__main__")
    except Exception:  # noqa: BLE001 - as the interpreter does
        sys.excepthook(*sys.exc_info())
        sys.exit(1)
