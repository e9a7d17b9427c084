"""A live stack's outputs, read through the Pulumi CLI as a person would by hand."""

import json
import subprocess
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parent.parent.parent
_COMMAND = (
    'eval "$(make --silent env STACK="$1")" && '
    'exec pulumi stack output --stack "$1" --json --show-secrets'
)
_LIMIT_SECONDS = 60


class StackNotUpError(Exception):
    """The stack has no outputs to check: it is not there, or not up."""


def read(stack: str) -> dict[str, Any]:
    """Return the outputs of `stack`, secrets included.

    Raises:
        StackNotUpError: with what Pulumi said and what to do.
    """
    finished = subprocess.run(
        ["bash", "-c", _COMMAND, "bash", stack],
        cwd=_ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_LIMIT_SECONDS,
        check=False,
    )
    if finished.returncode != 0:
        raise StackNotUpError(
            f"stack {stack!r} can't be read: {finished.stderr.strip()}\n"
            f"Bring it up first: make up STACK={stack}"
        )
    outputs: dict[str, Any] = json.loads(finished.stdout)
    if "cluster" not in outputs:
        raise StackNotUpError(
            f"stack {stack!r} is not up; bring it up first: make up STACK={stack}"
        )
    return outputs
