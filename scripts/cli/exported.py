"""Reads what a stack's state says."""

import json

from scripts.cli.backend import exists, exported
from scripts.cli.pulumi_cli import Cli
from scripts.cli.state import StackState


def read_state(stack: str, *, secrets: bool = False) -> StackState:
    """Return what the stack's state says; nothing when there is no stack.

    Args:
        stack: Its name.
        secrets: Whether to decrypt them, which only the CLI can do. Without them there is no
            kubeconfig.

    Raises:
        PulumiFailed: it can't be read.
    """
    if not secrets:
        return StackState.of(exported(stack))
    if not exists(stack):
        return StackState()
    return StackState.of(json.loads(Cli(stack).ask("stack", "export", "--show-secrets")))
