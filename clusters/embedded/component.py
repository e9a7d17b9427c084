"""What one program of the cluster is: what to run, and what it reads."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from core.toolchain import Tool


@dataclass(frozen=True)
class Host:
    """What this machine has that the cluster's configuration depends on.

    Args:
        tool: Gives a tool by its name, as `core.toolchain.tool` does.
        snapshotter: How containerd stacks an image's layers.
    """

    tool: Callable[[str], Tool]
    snapshotter: Literal["overlayfs", "native"]

    def path(self, tool: str) -> str:
        """The path of a tool. Raises `core.toolchain.ToolMissing`."""
        return str(self.tool(tool).path)


@dataclass(frozen=True)
class Component:
    """One program that is kept running.

    Args:
        name: What it and its log are called.
        command: The program and its arguments.
        files: Configuration that it reads, by path; written before it starts.
        reads: Credentials that it reads when it starts: it is started again when they change.
        environment: Variables of its own, beside those that all components share.
        calls_api: Whether it is a client of the API server, which is then started before it: one
            that finds none tries again seconds later.
    """

    name: str
    command: tuple[str, ...]
    files: Mapping[Path, str] = field(default_factory=dict)
    reads: tuple[Path, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    calls_api: bool = False


def flags(**values: object) -> tuple[str, ...]:
    """Command line flags: `flags(leader_elect=False)` is `("--leader-elect=false",)`."""
    return tuple(f"--{name.replace('_', '-')}={_flag(value)}" for name, value in values.items())


def _flag(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
