"""`scripts/ci-smoke STACK`: up, smoke and down on a fresh state, and one closing table.

The stack is made in a copy of this checkout with a state of its own, so it never meets the one
that a person has. It is always destroyed: also after a failure, Ctrl-C, SIGTERM and SIGHUP.
Exits 0 only if every step did.
"""

import argparse
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from rich.console import Console
from rich.table import Table

from scripts.scratch import Scratch

_LIMITS = {"up": 45 * 60, "smoke": 10 * 60, "down": 10 * 60}
"""Seconds that a step may take; a first `up` on a bare machine builds the trainer's image."""


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Step:
    """One step's end: what happened and how long it took."""

    name: str
    outcome: str
    seconds: float

    @property
    def passed(self) -> bool:
        return self.outcome == "ok"


def run_step(scratch: Scratch, name: str, stack: str) -> Step:
    """Run `make NAME STACK=stack` in the copy."""
    try:
        finished = scratch.run(f"make {name} STACK={shlex.quote(stack)}", _LIMITS[name], show=True)
    except TimeoutError:
        return Step(name, f"no end within {_LIMITS[name]} s", _LIMITS[name])
    outcome = "ok" if finished.code == 0 else f"exit status {finished.code}"
    return Step(name, outcome, finished.seconds)


def run_steps(scratch: Scratch, stack: str) -> list[Step]:
    """Run up and, if that worked, smoke; then down, whatever happened before."""
    steps = []
    try:
        for name in ("up", "smoke"):
            steps.append(run_step(scratch, name, stack))
            if not steps[-1].passed:
                break
    except KeyboardInterrupt as interruption:
        steps.append(Step("interrupted", str(interruption), 0))
    finally:
        with undisturbed():
            steps.append(run_step(scratch, "down", stack))
    return steps


@contextmanager
def undisturbed() -> Iterator[None]:
    """Ignore signals for a while: a second Ctrl-C must not leave a cluster behind."""
    handlers = {number: signal.signal(number, signal.SIG_IGN) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def report(steps: list[Step], stack: str) -> Table:
    """Return the summary table."""
    table = Table("step", "outcome", "seconds", title=f"stack {stack}")
    for step in steps:
        table.add_row(step.name, step.outcome, f"{step.seconds:.1f}")
    table.add_row(
        "all", "ok" if passed(steps) else "failed", f"{sum(s.seconds for s in steps):.1f}"
    )
    return table


def passed(steps: list[Step]) -> bool:
    """Return whether every step ran and passed."""
    return [step.name for step in steps if step.passed] == ["up", "smoke", "down"]


def main() -> int:
    """Run the command; the exit status is 0 only if every step passed."""
    parser = argparse.ArgumentParser(prog="scripts/ci-smoke", description=__doc__)
    parser.add_argument("stack", help="a stack with a file in stacks/, such as dev")
    stack = parser.parse_args().stack

    def interrupt(number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt(signal.Signals(number).name)

    for number in _SIGNALS:
        signal.signal(number, interrupt)
    scratch = Scratch.of(Path(__file__).resolve().parent.parent)
    steps = run_steps(scratch, stack)
    Console().print(report(steps, stack))
    if steps[-1].passed:
        scratch.remove()
    else:
        sys.stdout.write(f"kept, because `make down` failed: {scratch.directory}\n")
    return 0 if passed(steps) else 1


if __name__ == "__main__":
    sys.exit(main())
