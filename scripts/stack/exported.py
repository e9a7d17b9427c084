"""Reads what a stack's state says."""

import json

from scripts.stack.backend import exists
from scripts.stack.cli import Cli
from scripts.stack.state import StackState


def read_state(stack: str) -> StackState:
    """Return what the stack's state says, with its secrets; nothing when there is no stack.

    Raises:
        PulumiFailed: it can't be read.
    """
    if not exists(stack):
        return StackState()
    return StackState.of(json.loads(Cli(stack).ask("stack", "export", "--show-secrets")))
