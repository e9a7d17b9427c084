"""`scripts/ci-smoke STACK`: up, smoke and down on a fresh state, with an exit status for pipelines.

The stack is made in a copy of this checkout with a state of its own, so it never meets the one
that the user has. It is always destroyed: also after a failure, Ctrl-C, SIGTERM and SIGHUP.

0: all passed. 1: a check failed, or the stack could not be made or removed. 2: wrong usage.
124: a time limit passed. 125: a job failed or missed a gate. 128 and the signal's number: stopped.
"""

import argparse
import json
import math
import os
import re
import shlex
import signal
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.table import Table

from core.paths import CHECKOUT
from scripts.scratch import Scratch

FAILED = 1
TIMED_OUT = 124
JOB_FAILED = 125
_BY_SIGNAL = 128
_LIMITS = {"up": 45 * 60.0, "smoke": 10 * 60.0, "down": 10 * 60.0}
"""Seconds that a step may take; a first `up` on a bare machine builds the trainer's image."""
_RESULTS_SECONDS = 60.0
_CALLED_FROM = "CI_SMOKE_CALLED_FROM"
"""The variable with the caller's directory, which relative paths begin at."""
_ENDED_BADLY = frozenset({"Failed", "TimedOut", "CannotStart"})
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Step:
    """One step's end.

    Args:
        name: up, smoke or down.
        outcome: `ok`, or what happened instead.
        seconds: How long it took.
        status: What the run exits with because of it; 0 if it passed.
    """

    name: str
    outcome: str
    seconds: float
    status: int = 0


@dataclass(frozen=True)
class Summary:
    """A run of all steps.

    Args:
        stack: Its name.
        steps: In the order in which they ran.
        jobs: What `make results FORMAT=json` has of each job.
        checks: JUnit's XML of the smoke checks; None where they did not run.
    """

    stack: str
    steps: Sequence[Step]
    jobs: dict[str, Any] = field(default_factory=dict)
    checks: ET.Element | None = None

    @property
    def status(self) -> int:
        """What to exit with: the first failure's."""
        return next((step.status for step in self.steps if step.status), 0)

    def json(self) -> str:
        """Return it as JSON."""
        steps = [
            {"name": step.name, "outcome": step.outcome, "seconds": round(step.seconds, 1)}
            for step in self.steps
        ]
        jobs = {"jobs": self.jobs}
        return json.dumps({"stack": self.stack, "status": self.status, "steps": steps, **jobs})

    def junit(self) -> ET.ElementTree:
        """Return it in JUnit's XML: a suite of the steps, then that of the smoke checks."""
        suites = ET.Element("testsuites")
        failed = sum(1 for step in self.steps if step.status)
        counts = {"tests": str(len(self.steps)), "failures": str(failed)}
        suite = ET.SubElement(suites, "testsuite", {"name": f"stack {self.stack}", **counts})
        for step in self.steps:
            about = {"classname": self.stack, "name": step.name, "time": f"{step.seconds:.1f}"}
            case = ET.SubElement(suite, "testcase", about)
            if step.status:
                ET.SubElement(case, "failure", {"message": step.outcome})
        suites.extend([] if self.checks is None else self.checks.iter("testsuite"))
        return ET.ElementTree(suites)

    def table(self) -> Table:
        """Return it for a terminal."""
        table = Table("step", "outcome", "seconds", title=f"stack {self.stack}")
        for step in self.steps:
            table.add_row(step.name, step.outcome, f"{step.seconds:.1f}")
        outcome = "ok" if self.status == 0 else f"exit status {self.status}"
        table.add_row("all", outcome, f"{sum(step.seconds for step in self.steps):.1f}")
        return table


def run_step(scratch: Scratch, name: str, stack: str, limit: float, options: str = "") -> Step:
    """Run `make NAME STACK=stack` in the copy."""
    limit = max(0.0, min(limit, _LIMITS[name]))
    try:
        command = f"make {name} STACK={shlex.quote(stack)} {options}".strip()
        finished = scratch.run(command, limit, show=True)
    except TimeoutError:
        return Step(name, f"no end within {limit:.0f} s", limit, TIMED_OUT)
    if finished.code == 0:
        return Step(name, "ok", finished.seconds)
    return Step(name, f"exit status {finished.code}", finished.seconds, FAILED)


def run_steps(scratch: Scratch, stack: str, timeout: float = math.inf) -> Summary:
    """Run up and, if that worked, smoke; then down, whatever happened before.

    Args:
        scratch: Where.
        stack: Its name.
        timeout: Seconds for up and smoke together. `down` always has its own.
    """
    steps: list[Step] = []
    jobs: dict[str, Any] = {}
    checks = scratch.directory / "checks.xml"
    until = time.monotonic() + timeout
    try:
        steps.append(run_step(scratch, "up", stack, timeout))
        if steps[0].status != TIMED_OUT:
            jobs = _jobs(scratch, stack)
        if steps[0].status == FAILED and (failed := _failed(jobs)):
            steps[0] = Step("up", f"failed: {', '.join(failed)}", steps[0].seconds, JOB_FAILED)
        if not steps[0].status:
            limit = until - time.monotonic()
            steps.append(run_step(scratch, "smoke", stack, limit, f"JUNIT={checks}"))
    except KeyboardInterrupt as interruption:
        number = signal.Signals[str(interruption)]
        steps.append(Step("stopped", number.name, 0.0, _BY_SIGNAL + number))
    finally:
        with undisturbed():
            steps.append(run_step(scratch, "down", stack, math.inf))
    return Summary(stack, steps, jobs, _parsed(checks))


def _parsed(checks: Path) -> ET.Element | None:
    """Return what pytest wrote; None where it was not run to its end."""
    with suppress(OSError, ET.ParseError):
        return ET.parse(checks).getroot()  # noqa: S314  # pytest wrote it
    return None


def _jobs(scratch: Scratch, stack: str) -> dict[str, Any]:
    """Return each job's last result; none where the stack has no results."""
    command = f"make -s results STACK={shlex.quote(stack)} FORMAT=json"
    with suppress(TimeoutError, ValueError, KeyError):
        return dict(json.loads(scratch.run(command, _RESULTS_SECONDS).output)["jobs"])
    return {}


def _failed(jobs: dict[str, Any]) -> list[str]:
    """Return the names of jobs that ended otherwise than Succeeded, or missed a gate."""
    return [
        name
        for name, job in jobs.items()
        if job.get("gate") == "missed" or job.get("state") in _ENDED_BADLY
    ]


@contextmanager
def undisturbed() -> Iterator[None]:
    """Ignore signals for a while: a second Ctrl-C must not leave a cluster behind."""
    handlers = {number: signal.signal(number, signal.SIG_IGN) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _stack(name: str) -> str:
    known = sorted(file.stem for file in (CHECKOUT / "stacks").glob("*.yaml"))
    if name not in known:
        raise argparse.ArgumentTypeError(
            f"there is no stack {name!r}; there are: {', '.join(known)}"
        )
    return name


def _file(text: str) -> Path:
    file = Path(os.environ.get(_CALLED_FROM, "."), text)
    if not file.parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no directory {file.parent}; make it first")
    return file


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+)([smh]?)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as 90s, 20m or 1h")
    return int(found[1]) * {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}[found[2]]


def main() -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="scripts/ci-smoke",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("stack", type=_stack, help="a stack with a file in stacks/, such as dev")
    parser.add_argument("--timeout", type=_seconds, default=math.inf, help="such as 20m")
    parser.add_argument("--json", type=_file, metavar="FILE", help="write the summary there")
    parser.add_argument("--junit", type=_file, metavar="FILE", help="write JUnit's XML there")
    arguments = parser.parse_args()

    def interrupt(number: int, _frame: FrameType | None) -> None:
        for each in _SIGNALS:  # another one must not keep `down` from running
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt(signal.Signals(number).name)

    for number in _SIGNALS:
        signal.signal(number, interrupt)
    try:
        scratch = Scratch.of(CHECKOUT)
    except KeyboardInterrupt as interruption:
        return _BY_SIGNAL + signal.Signals[str(interruption)]
    summary = run_steps(scratch, arguments.stack, arguments.timeout)
    Console().print(summary.table())
    if arguments.json is not None:
        arguments.json.write_text(summary.json())
    if arguments.junit is not None:
        summary.junit().write(arguments.junit, encoding="utf-8", xml_declaration=True)
    if summary.steps[-1].status:
        sys.stdout.write(f"kept, because `make down` failed: {scratch.directory}\n")
    else:
        scratch.remove()
    return summary.status


if __name__ == "__main__":
    sys.exit(main())
