"""A live stack's outputs, read through the Pulumi CLI."""

import json
import os
from typing import Any

from core.process import CommandFailed
from core.wording import as_typed
from scripts.cli.backend import Cli
from scripts.environment import applied


class StackNotUpError(Exception):
    """The stack has no outputs to check: it is not there, or not up."""


def read(stack: str) -> dict[str, Any]:
    """Return the outputs of `stack`, secrets included.

    Raises:
        StackNotUpError: with what Pulumi said and what to do.
    """
    first = as_typed(f"bring it up first: make up STACK={stack}")
    os.environ.update(applied(os.environ))
    try:
        printed = Cli(stack).query("stack", "output", "--json", "--show-secrets")
    except CommandFailed as error:
        raise StackNotUpError(f"stack {stack!r} can't be read: {error}\n{first}") from None
    outputs: dict[str, Any] = json.loads(printed)
    if "cluster" not in outputs:
        raise StackNotUpError(f"stack {stack!r} is not up; {first}")
    return outputs
