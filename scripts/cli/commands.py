"""The commands up, preview and rerun: prepare a stack, run Pulumi's CLI, and show the results."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from core import tokens
from core.context import NO_WAIT_VARIABLE, SHOWN_VARIABLE, SUMMARY_VARIABLE
from core.process import CommandFailed
from scripts.cli.backend import INTERRUPTED, QUIET, Cli, exists, exported, name_of, rows
from scripts.cli.config import ensure_own, jobs_of, load_settings, require_job, without_runs
from scripts.cli.recovery import recover
from scripts.cli.terminal import echo


def up(stack: str, *, detach: bool = False) -> int:
    """Create the stack and its file if they are missing, then update the stack."""
    return _update(prepared(stack), **({NO_WAIT_VARIABLE: "1"} if detach else {}))


def preview(stack: str, job: str = "") -> int:
    """Show what `up` would do, then repeat the estimated cost and all expected problems.

    Creates the stack's file and an empty stack if they are missing. If `job` would be trained, its
    complete PyTorchJob is shown.
    """
    cli = prepared(stack)
    if job:
        require_job(stack, job, jobs_of(stack))
    with TemporaryDirectory() as directory:
        last = Path(directory) / "last"
        shown = {SUMMARY_VARIABLE: str(last), SHOWN_VARIABLE: job}
        # A preview does not save state, but the engine would still serialize it for each resource.
        code = cli.run("preview", QUIET, **shown, PULUMI_SKIP_CHECKPOINTS="true")
        if last.exists():
            echo(last.read_text().rstrip())
    return code


def rerun(stack: str, job: str) -> int:
    """Update the stack and train one job again, replacing its run and the gate for its result."""
    runs = run_urns(exported(stack))
    if not runs:
        raise without_runs(stack)
    require_job(stack, job, runs)
    if (settings := load_settings(stack)) is not None:
        more = f" `up` removes {job}; to keep it, add it to slipway:jobs in Pulumi.{stack}.yaml."
        require_job(stack, job, [each.name for each in settings.jobs], more)
    cli = prepared(stack)
    echo(f"Training {job} again.")
    return _update(cli, "--replace", runs[job])


def prepared(stack: str) -> Cli:
    """Clear a stack's stale locks, create the stack if it is missing, and return its CLI."""
    ensure_own(stack)
    cli = Cli(stack)
    recover(cli)
    if not exists(stack):
        try:
            cli.query("stack", "init", "--no-select")
        except CommandFailed:
            if not exists(stack):  # a killed command's pulumi may have created it
                raise
    return cli


def _update(cli: Cli, *options: str, **variables: str) -> int:
    # A preview would take as long as the update, and is not needed: the program reports invalid
    # settings before it declares resources, and the API server validates new runs before old ones
    # are replaced.
    words = ("--yes", "--skip-preview", "--suppress-outputs", QUIET)
    code = cli.run("up", *words, *options, **variables)
    if code != INTERRUPTED:
        from scripts.cli.runs import results  # noqa: PLC0415 - a preview does not need it

        return results.summarize(cli.stack, code)
    echo(
        "Interrupted. The stack keeps its outputs. Runs that have started continue, unless "
        "their `onCancel` is delete; the next `make up` waits for them, and `make up WAIT=0` "
        "returns once they are running. `make results` lists them."
    )
    return code


def run_urns(export: Mapping[str, Any]) -> dict[str, str]:
    """Return the URNs of the runs in an exported state, keyed by job name."""
    return {
        name_of(each): each["urn"]
        for each in rows(export, "resources")
        # Exclude replaced runs that are yet to be deleted.
        if each["type"] == tokens.PYTORCH_JOB and not each.get("delete")
    }
