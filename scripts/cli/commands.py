"""up and preview: the CLI's commands, with what a person would otherwise do around them."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from core import summary
from scripts.cli.backend import exists
from scripts.cli.exported import read_state
from scripts.cli.files import ensure_own
from scripts.cli.pulumi_cli import INTERRUPTED, Cli
from scripts.cli.recovery import recover
from scripts.cli.repair import mend

UPDATE = ("up", "--yes", "--skip-preview")
"""Nobody is asked, so nobody would read a preview: it would take as long as an update does.

What is wrong with the settings the program says before it declares anything, and a run takes the
place of a success only if the API server admits it (`jobs/life/run.py`).
"""


def up(stack: str) -> int:
    """Makes the stack's file and the stack if they are missing, and updates it."""
    code = prepared(stack).run(*UPDATE)
    if code == INTERRUPTED:
        say(
            "Interrupted: what Pulumi shows as removed from the outputs is in the stack's state "
            "still, and runs that have begun go on. The next `make up` takes them up again."
        )
    elif code != 0 and any(job.result for job in read_state(stack).jobs.values()):
        say(f"How each job ended, and why: `make results STACK={stack}`.")
    return code


def preview(stack: str) -> int:
    """Shows what `up` would do, and does none of it.

    For each run that is to be: why, its PyTorchJob, and what it needs. Every property of every
    resource is in Pulumi's own `preview --diff`.

    What it costs, and what `up` will refuse, comes again in the end. Makes the stack's file and an
    empty stack if they are missing.
    """
    cli = prepared(stack)
    with TemporaryDirectory() as directory:
        last = Path(directory) / "last"
        code = cli.run("preview", **{summary.VARIABLE: str(last)})
        if last.exists():
            say(last.read_text().rstrip())
    return code


def say(line: str) -> None:
    """Prints a line between those of Pulumi."""
    print(line, file=sys.stderr, flush=True)


def prepared(stack: str) -> Cli:
    """The CLI on a stack that exists, and is not held by a dead process."""
    ensure_own(stack)
    mend(stack)
    cli = Cli(stack)
    if not exists(stack):
        cli.ask("stack", "init", "--no-select")
    recover(cli, say)
    return cli
