"""What Pulumi's file backend holds of a stack, read from its own file: that takes no CLI."""

import json
from pathlib import Path
from typing import Any


def latest(backend: Path, stack: str) -> dict[str, Any]:
    """Return a stack's latest deployment, in the directory that PULUMI_BACKEND_URL names."""
    [file] = backend.glob(f".pulumi/stacks/*/{stack}.json")
    found: dict[str, Any] = json.loads(file.read_text())["checkpoint"]["latest"] or {}
    return found


def resources(backend: Path, stack: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = latest(backend, stack).get("resources") or []
    return found


def outputs(backend: Path, stack: str) -> dict[str, Any]:
    """Return a stack's outputs; those that are secret are encrypted."""
    of_stack = (each for each in resources(backend, stack) if each["type"] == "pulumi:pulumi:Stack")
    found: dict[str, Any] = next(of_stack, {}).get("outputs") or {}
    return found
