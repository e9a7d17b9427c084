"""A stack's state as Pulumi keeps it."""

import json
from typing import Any

from scripts.cli.backend import state_file


def keep_state(stack: str = "dev", **latest: Any) -> None:
    """Let a stack be in the state, with what its latest deployment has."""
    file = state_file(stack)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"version": 3, "checkpoint": {"latest": latest}}))


def resource(type_: str, name: str, **fields: Any) -> dict[str, Any]:
    """Return a resource of stack dev's."""
    return {"type": type_, "urn": f"urn:pulumi:dev::slipway::{type_}::{name}", **fields}
