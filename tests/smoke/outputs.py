"""A live stack's outputs, read through the Pulumi CLI."""

import json
import os
from typing import Any

import pytest

from core.process import CommandFailed
from core.wording import as_typed
from scripts.cli.backend import Cli
from scripts.environment import applied


def read(stack: str) -> dict[str, Any]:
    """Return the outputs of `stack`, secrets included."""
    first = as_typed(f"bring it up first: make up STACK={stack}")
    os.environ.update(applied(os.environ))
    try:
        printed = Cli(stack).query("stack", "output", "--json", "--show-secrets")
    except CommandFailed as error:
        raise pytest.UsageError(f"stack {stack!r} can't be read: {error}\n{first}") from None
    outputs: dict[str, Any] = json.loads(printed)
    if "cluster" not in outputs:
        raise pytest.UsageError(f"stack {stack!r} is not up; {first}")
    return outputs
