"""`make rerun JOB=…`: trains a job again on purpose, although nothing about it has changed."""

from collections.abc import Mapping
from typing import Any

from core.text import meant
from scripts.cli import commands
from scripts.cli.backend import exported
from scripts.cli.errors import CommandError
from scripts.cli.files import check
from scripts.cli.pulumi_cli import rows

_RUN = "slipway:jobs:PyTorchJob"


class NoRun(CommandError):
    """There is no run of that job to be repeated. The text says which there are."""


def rerun(stack: str, job: str) -> int:
    """Updates the stack, and replaces the run of one job, and so the gate that judges it.

    Its PyTorchJob is deleted before, so that it is not taken up again.

    Raises:
        StackFileError: there is no such stack.
        NoRun: it has no run of that job.
    """
    check(stack)
    runs = urns(exported(stack))
    if job not in runs:
        raise NoRun(_refusal(stack, job, runs))
    cli = commands.prepared(stack)
    commands.say(f"{job} is trained again, as asked for.")
    return cli.run(*commands.UPDATE, "--replace", runs[job])


def urns(export: Mapping[str, Any]) -> dict[str, str]:
    """The runs in an exported state: their URNs by the jobs' names."""
    resources = rows(export, "resources")
    return {
        each["urn"].rsplit("::", 1)[-1]: each["urn"]
        for each in resources
        # One that was replaced and could not be deleted yet is no run to be repeated.
        if each["type"] == _RUN and not each.get("delete")
    }


def _refusal(stack: str, job: str, runs: Mapping[str, str]) -> str:
    if not runs:
        return f"Stack {stack} has no runs to repeat; `make up STACK={stack}` trains its jobs."
    there = f"There are: {', '.join(sorted(runs))}."
    if not job:
        return f"Say which job to train again: JOB=NAME. {there}"
    return f"Stack {stack} has no run of a job {job!r}.{meant(job, runs)} {there}"
