"""`scripts/ci-smoke STACK`: run up, smoke and down from scratch, for CI pipelines.

The stack is created in a copy of this checkout with a separate state, so it never affects your own
stacks. It is always destroyed, including after a failure, Ctrl-C, SIGTERM and SIGHUP.

Exit status: 0: all passed. 1: a check failed, or the stack could not be created or removed. 2:
wrong usage. 124: a timeout. 125: a job failed or missed a gate. 128 + N: stopped by signal N.
"""

import json
import math
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click
import yaml
from rich.console import Console
from rich.table import Table

from core.paths import CHECKOUT
from scripts.cli.config import AsPulumi
from scripts.scratch import Scratch

FAILED, TIMED_OUT, JOB_FAILED, _BY_SIGNAL = 1, 124, 125, 128  # exit statuses
_LIMITS = {"up": 45 * 60.0, "smoke": 10 * 60.0, "down": 10 * 60.0}
"""Time limits in seconds; the first `up` on a new machine builds the trainer image."""
_ENDED_BADLY = frozenset({"Failed", "TimedOut", "CannotStart", "missed"})
_STACKS = sorted(file.stem for file in (CHECKOUT / "stacks").glob("*.yaml"))
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Step:
    """The result of a step; `status` is 0, or the exit status for the run if this step failed."""

    name: str
    outcome: str
    seconds: float
    status: int = 0


@dataclass(frozen=True)
class Command:
    """A step: a bash command line, its time limit in seconds, and whether it runs jobs."""

    name: str
    line: str
    limit: float
    trains: bool = False

    @classmethod
    def of_make(cls, name: str, stack: str) -> "Command":
        """Return the step that runs `make NAME STACK=stack`."""
        return cls(name, f"make {name} STACK={shlex.quote(stack)}", _LIMITS[name], name == "up")


@dataclass(frozen=True)
class Summary:
    """The steps that ran, each job's result, and the JUnit XML of the smoke checks, if any."""

    stack: str
    steps: Sequence[Step]
    jobs: dict[str, Any] = field(default_factory=dict)
    checks: ET.Element | None = None

    @property
    def status(self) -> int:
        """The run's exit status, which is that of the first failed step."""
        return next((step.status for step in self.steps if step.status), 0)

    @property
    def document(self) -> dict[str, Any]:
        """The summary as the content of the JSON file."""
        steps = [
            {"name": step.name, "outcome": step.outcome, "seconds": round(step.seconds, 1)}
            for step in self.steps
        ]
        return {"stack": self.stack, "status": self.status, "steps": steps, "jobs": self.jobs}

    def junit(self) -> ET.ElementTree:
        """Return the summary as JUnit XML: a suite for the steps, then the smoke-check suites."""
        suites = ET.Element("testsuites")
        failures = sum(step.status != 0 for step in self.steps)
        counts = {"tests": str(len(self.steps)), "failures": str(failures)}
        suite = ET.SubElement(suites, "testsuite", {"name": f"stack {self.stack}", **counts})
        for step in self.steps:
            about = {"classname": self.stack, "name": step.name, "time": f"{step.seconds:.1f}"}
            case = ET.SubElement(suite, "testcase", about)
            if step.status:
                ET.SubElement(case, "failure", {"message": step.outcome})
        suites.extend([] if self.checks is None else self.checks.iter("testsuite"))
        return ET.ElementTree(suites)

    def table(self) -> Table:
        """Return the summary as a table for a terminal."""
        table = Table("step", "outcome", "seconds", title=f"stack {self.stack}")
        for step in self.steps:
            table.add_row(step.name, step.outcome, f"{step.seconds:.1f}")
        outcome = "ok" if self.status == 0 else f"exit status {self.status}"
        table.add_row("all", outcome, f"{sum(step.seconds for step in self.steps):.1f}")
        return table


def run_steps(
    scratch: Scratch,
    stack: str,
    timeout: float = math.inf,
    commands: Sequence[Command] = (),
    judge: Callable[[Step], Step] = lambda step: step,
) -> Summary:
    """Run commands, by default up, smoke and down, until one fails; always run the last one.

    `timeout` limits the total time of all commands except the last, in seconds. `judge` returns
    each step's final result.
    """
    steps: list[Step] = []
    jobs: dict[str, Any] = {}
    checks = scratch.directory / "checks.xml"
    if not commands:
        up, smoke, down = (Command.of_make(name, stack) for name in _LIMITS)
        commands = (up, replace(smoke, line=f"{smoke.line} JUNIT={shlex.quote(str(checks))}"), down)
    *before, down = commands
    until = time.monotonic() + timeout
    try:
        for command in before:
            step = _run_step(scratch, command, until - time.monotonic())
            if command.trains:
                step, jobs = _with_jobs(scratch, stack, step)
            steps.append(judge(step))
            if steps[-1].status:
                break
    except SystemExit as stopped:  # by `_stop`
        status = int(str(stopped))
        steps.append(Step("stopped", signal.Signals(status - _BY_SIGNAL).name, 0.0, status))
    finally:
        # A second Ctrl-C must not leave a cluster behind.
        handlers = {number: signal.signal(number, signal.SIG_IGN) for number in _SIGNALS}
        steps.append(judge(_run_step(scratch, down, math.inf)))
        for number, handler in handlers.items():
            signal.signal(number, handler)
    with suppress(OSError, ET.ParseError):  # pytest may not have finished it
        return Summary(stack, steps, jobs, ET.parse(checks).getroot())  # noqa: S314
    return Summary(stack, steps, jobs)


def _run_step(scratch: Scratch, command: Command, limit: float) -> Step:
    limit = max(0.0, min(limit, command.limit))
    try:
        finished = scratch.run(command.line, limit, show=True)
    except TimeoutError:
        return Step(command.name, f"timed out after {limit:.0f} s", limit, TIMED_OUT)
    outcome = f"exit status {finished.code}" if finished.code else "ok"
    return Step(command.name, outcome, finished.seconds, FAILED if finished.code else 0)


def _with_jobs(scratch: Scratch, stack: str, step: Step) -> tuple[Step, dict[str, Any]]:
    """Return the step, with failed jobs named in its outcome, and the last results by job name."""
    jobs: dict[str, Any] = {}
    command = f"make -s results STACK={shlex.quote(stack)} FORMAT=json"
    with suppress(TimeoutError, ValueError, KeyError):
        jobs = dict(json.loads(scratch.run(command, 60).output)["jobs"])
    ends = {name: {job.get("state"), job.get("gate")} for name, job in jobs.items()}
    failed = ", ".join(name for name, end in ends.items() if end & _ENDED_BADLY)
    if step.status == FAILED and failed:
        step = replace(step, outcome=f"failed: {failed}", status=JOB_FAILED)
    return step, jobs


def name_cluster(scratch: Scratch, stack: str) -> None:
    """Name the copy's cluster uniquely if other copies' clusters on this machine would clash."""
    file = scratch.checkout / "stacks" / f"{stack}.yaml"
    with suppress(LookupError, TypeError, AttributeError, yaml.YAMLError):  # `up` says what's wrong
        document = yaml.load(file.read_text(), AsPulumi)  # noqa: S506 - a SafeLoader
        cluster = document["config"]["slipway:cluster"]
        if cluster["kind"] in {"kind", "minikube"} and not cluster.keys() & {"name", "adopt"}:
            cluster["name"] = scratch.name
            file.write_text(yaml.safe_dump(document))


def input_file(text: str) -> Path:
    """Return the path given to an option, resolved against the caller's directory."""
    return Path(os.environ.get("CI_SMOKE_CALLED_FROM", "."), text)


def output_file(text: str) -> Path:
    """Return the path given to an option, or raise if its directory does not exist."""
    file = input_file(text)
    if not file.parent.is_dir():
        raise click.BadParameter(f"the directory {file.parent} does not exist; create it first")
    return file


def duration(text: str) -> float:
    """Convert a duration, such as 20m, to seconds."""
    match = re.fullmatch(r"(\d+)([smh]?)", text)
    if match is None:
        raise click.BadParameter(f"{text!r} is not a duration such as 90s, 20m or 1h")
    return int(match[1]) * {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}[match[2]]


def _stop(number: int, _frame: object) -> None:
    for each in _SIGNALS:  # another signal must not stop `down`
        signal.signal(each, signal.SIG_IGN)
    raise SystemExit(_BY_SIGNAL + number)


def run_in_copy(run: Callable[[Scratch], Summary]) -> int:
    """Run steps in a copy of the checkout, kept only if `down` fails; return the exit status."""
    for number in _SIGNALS:
        signal.signal(number, _stop)
    try:
        scratch = Scratch.copy_of(CHECKOUT)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"{CHECKOUT} can't be copied to TMPDIR, by default /var/tmp: {error}")
    summary = run(scratch)
    Console().print(summary.table())
    if summary.steps[-1].status:
        sys.stdout.write(f"`make down` failed, so the copy is kept: {scratch.directory}\n")
    else:
        scratch.remove()
    return summary.status


@click.command(help=__doc__)
@click.argument("stack", type=click.Choice(_STACKS))
@click.option("--timeout", type=duration, help="stop after this time, such as 20m")
@click.option("--json", "document", type=output_file, help="write the summary to this file")
@click.option("--junit", type=output_file, help="write a JUnit XML report to this file")
def main(stack: str, timeout: float | None, document: Path | None, junit: Path | None) -> None:
    """Run the command and exit with its status."""

    def run(scratch: Scratch) -> Summary:
        name_cluster(scratch, stack)
        summary = run_steps(scratch, stack, math.inf if timeout is None else timeout)
        if document is not None:
            document.write_text(json.dumps(summary.document))
        if junit is not None:
            summary.junit().write(junit, encoding="utf-8", xml_declaration=True)
        return summary

    sys.exit(run_in_copy(run))


if __name__ == "__main__":
    main(prog_name="scripts/ci-smoke")
