"""What the settings of kind and minikube have in common, and the types of their fields."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic.dataclasses import dataclass

from core.fields import CONFIG, Cpu, Directory, Memory
from core.problem import Contradiction

_ADDRESS = re.compile(r"\d{1,3}(\.\d{1,3}){3}")
_EVERYWHERE = "0.0.0.0"  # noqa: S104  # compared with, not listened on


def _address(text: str) -> str:
    if not _ADDRESS.fullmatch(text) or any(int(part) > 255 for part in text.split(".")):
        raise ValueError("an IPv4 address of this machine, such as 127.0.0.1")
    return text


ClusterName = Annotated[
    str,
    Field(
        # kind appends `-control-plane` to it, and a host's name has at most 64 characters.
        pattern="^[a-z0-9]([a-z0-9-]{0,48}[a-z0-9])?$",
        description="at most 50 of a-z, 0-9 and -, and no - first or last",
    ),
]
Port = Annotated[int, Field(ge=1, le=65535)]
Address = Annotated[
    str,
    AfterValidator(_address),
    Field(description="an IPv4 address of this machine, such as 127.0.0.1"),
]


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class PortMapping:
    """A port of this machine that leads to one of a node: that of a Service's nodePort, say.

    Args:
        host: On this machine.
        node: On the node.
        protocol: What is spoken.
        address: Of this machine; nobody else reaches it unless it is another one.
    """

    host: Port
    node: Port
    protocol: Literal["TCP", "UDP"] = "TCP"
    address: Address = "127.0.0.1"


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Mount:
    """A directory of this machine that the nodes have, too; a job mounts it as `hostPath`.

    Args:
        host: On this machine.
        node: On the nodes.
        read_only: Whether they may not write to it.
    """

    host: Directory
    node: Directory
    read_only: bool = False


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Reserved:
    """What each node keeps free of pods.

    Args:
        cpu: Cores.
        memory: With its unit.
    """

    cpu: Cpu | None = None
    memory: Memory | None = None


def clashes(ports: Sequence[PortMapping]) -> Iterator[Contradiction]:
    """Yield each port of this machine that is given away twice."""
    for index, port in enumerate(ports):
        for other in ports[:index]:
            together = port.address == other.address or _EVERYWHERE in {port.address, other.address}
            if (port.host, port.protocol) == (other.host, other.protocol) and together:
                text = f"{port.host}/{port.protocol} of this machine is given away twice"
                path = ("ports", index, "host")
                yield Contradiction(path, f"{text}; every port has its own", frozenset({"ports"}))
                break


def overlaid(mounts: Sequence[Mount]) -> Iterator[Contradiction]:
    """Yield each mount that would hide another one."""
    for index, mount in enumerate(mounts):
        hidden = next((i for i, other in enumerate(mounts[:index]) if other.node == mount.node), -1)
        if hidden >= 0:
            text = f"{mount.node} is where mounts[{hidden}] is already; every mount has its own"
            yield Contradiction(("mounts", index, "node"), text, frozenset({"mounts"}))
