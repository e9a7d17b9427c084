"""Which registries a cluster's nodes get images from, where it is not any."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Reach:
    """The one registry that nodes without the internet get images from.

    Args:
        server: Its host, with a path where it has one.
        mirrors: Where images of other registries are in it, by their names in it.
    """

    server: str
    mirrors: Mapping[str, str] = field(default_factory=dict)

    def has(self, image: str) -> bool:
        """Return whether a node can get an image of this name, or one that stands in for it."""
        return image in self.mirrors or image.partition("/")[0] == self.host

    @property
    def host(self) -> str:
        """The registry's host, with its port."""
        return self.server.partition("/")[0]


def reach(options: Any) -> Reach | None:
    """Return what a cluster of these settings reaches; None where it reaches everything.

    Args:
        options: Any kind's `Settings`. Those that can do without the internet have both of
            `registry` and `disconnected`.
    """
    registry = getattr(options, "registry", None)
    if registry is None or not getattr(options, "disconnected", None):
        return None
    return Reach(registry.server, registry.mirrors)
