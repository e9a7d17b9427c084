"""The programs that `make setup` found or built, as recorded in `toolchain.json`.

Imports only the standard library. `toolchain.json` maps a tool's name to its path and version:

    {"tools": {"kubelet": {"path": "/…/kubelet", "version": "v1.34.4", "origin": "built from …"}}}
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from core.paths import cache_dir


def numbers(version: str) -> tuple[int, ...]:
    """Return the numbers in a version, for comparison: (1, 34, 4) for `v1.34.4`."""
    return tuple(int(number) for number in re.findall(r"\d+", version))


class ToolMissing(Exception):
    """A tool that `make setup` has not provided. The message says what to do."""


@dataclass(frozen=True)
class Tool:
    """One tool, as `make setup` recorded it."""

    name: str
    path: Path
    """The path of a program, or of a directory (`cni-plugins`, `training-operator-manifests`)."""
    version: str


def record() -> Path:
    """Return the path of the file that `make setup` writes and this module reads."""
    return cache_dir() / "toolchain.json"


def tool(name: str) -> Tool:
    """Return a tool from the record; raise `ToolMissing` if it does not exist."""
    try:
        entry = json.loads(record().read_text())["tools"].get(name)
        recorded = None if entry is None else Tool(name, Path(entry["path"]), entry["version"])
    except FileNotFoundError:
        raise ToolMissing(
            f"The tools are not set up: {record()} is missing. Run `make setup`."
        ) from None
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ToolMissing(f"{record()} is damaged ({error}). Run `make setup`.") from error
    if recorded is None:
        raise ToolMissing(f"{name}: not among the tools in {record()}. Run `make setup`.")
    if not recorded.path.exists():
        raise ToolMissing(f"{name}: {recorded.path} no longer exists. Run `make setup`.")
    return recorded


def path(name: str) -> Path:
    """Return the absolute path of a tool, or raise `ToolMissing`."""
    return tool(name).path
