"""Which program to run for each tool: what `make setup` found or built, and wrote down.

Imports nothing but the standard library. `toolchain.json` maps a tool's name to where it is:

    {"tools": {"kubelet": {"path": "/…/kubelet", "version": "v1.34.4", "origin": "built from …"}}}
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from core.paths import cache_dir


def numbers(version: str) -> tuple[int, ...]:
    """Return the version's numbers, to compare: `v1.34.4` is (1, 34, 4)."""
    return tuple(int(number) for number in re.findall(r"\d+", version))


class ToolMissing(Exception):
    """A tool that `make setup` has not provided. The text names the remedy."""


@dataclass(frozen=True)
class Tool:
    """One tool as `make setup` recorded it."""

    name: str
    path: Path
    """A program, or a directory for `cni-plugins` and `training-operator-manifests`."""
    version: str


def record() -> Path:
    """The file that `make setup` writes and this module reads."""
    return cache_dir() / "toolchain.json"


def tool(name: str) -> Tool:
    """Return the record of a tool that still exists, or raise `ToolMissing`."""
    try:
        entry = json.loads(record().read_text())["tools"].get(name)
        found = None if entry is None else Tool(name, Path(entry["path"]), entry["version"])
    except FileNotFoundError:
        raise ToolMissing(f"No tools yet: {record()} is missing. Run `make setup`.") from None
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ToolMissing(f"{record()} is damaged ({error}). Run `make setup`.") from error
    if found is None:
        raise ToolMissing(f"{name}: not among the tools in {record()}. Run `make setup`.")
    if not found.path.exists():
        raise ToolMissing(f"{name}: {found.path} has gone since set-up. Run `make setup`.")
    return found


def path(name: str) -> Path:
    """Return the absolute path of a tool, or raise `ToolMissing`."""
    return tool(name).path
