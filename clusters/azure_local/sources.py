"""Where the images of an Azure Local cluster come from, and can't."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from clusters.azure.possible import of
from clusters.reach import Reach
from core.problem import Contradiction
from core.text import quote

if TYPE_CHECKING:
    from clusters.azure_local.settings import Settings


def contradictions(settings: Settings) -> Iterator[Contradiction]:
    """Yield each image that is not in the one registry that is reached without the internet."""
    if settings.disconnected is None:
        return
    registry = settings.registry
    reached = Reach(registry.server, registry.mirrors)
    for public, private in registry.mirrors.items():
        if private.partition("/")[0] != reached.host:
            place = ("registry", "mirrors", public)
            yield of(place, _unreached(private, reached), "disconnected", "registry.server")
    for key, image in settings.images.there.items():
        if not reached.has(image):
            yield of(("images", key), _unreached(image, reached), "disconnected", "registry")


def _unreached(image: str, reached: Reach) -> str:
    return f"{quote(image)} is not in the registry, {reached.host}, the only one reached"
