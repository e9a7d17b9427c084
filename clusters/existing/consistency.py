"""Settings of a cluster that is there which are each allowed but not together. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from clusters.pools import DEVICE_PLUGIN
from core.problem import Contradiction
from images.registry.login import host

if TYPE_CHECKING:
    from clusters.existing.settings import Settings


def contradictions(settings: Settings) -> Iterator[Contradiction]:
    """Yield everything that does not go together."""
    if settings.registry is None:
        yield from _missing(settings)
    if settings.disconnected and settings.registry is None:
        text = "goes with a `registry`, as nodes reach that one alone; name it, or leave this out"
        yield Contradiction(("disconnected",), text, frozenset({"disconnected", "registry"}))
    yield from _unmirrored(settings)
    gpus = settings.gpus
    if gpus is not None and gpus.max_nodes is not None and gpus.max_nodes < gpus.nodes:
        text = f"{gpus.max_nodes} is less than `gpus.nodes`, {gpus.nodes}; raise it, or lower that"
        yield Contradiction(("gpus", "maxNodes"), text, frozenset({"gpus.maxNodes", "gpus.nodes"}))


def _unmirrored(settings: Settings) -> Iterator[Contradiction]:
    """Yield what the nodes would pull out of a registry that they don't reach."""
    if not settings.disconnected or settings.registry is None:
        return
    server = host(settings.registry.server)
    for public, private in settings.registry.mirrors.items():
        if host(private) != server:
            text = f"{private} is not in {server}, which `disconnected` nodes reach alone; copy it"
            about = frozenset({"disconnected", "registry"})
            yield Contradiction(("registry", "mirrors", public), text, about)
    if settings.gpus is None:
        return
    if settings.gpus.device_plugin and DEVICE_PLUGIN not in settings.registry.mirrors:
        text = (
            f"has not {DEVICE_PLUGIN}, which `gpus.devicePlugin` installs; copy it, and say where "
            "it is"
        )
        about = frozenset({"disconnected", "registry", "gpus"})
        yield Contradiction(("registry", "mirrors"), text, about)


def _missing(settings: Settings) -> Iterator[Contradiction]:
    """Yield the images that nobody has put there, where there is no registry to push them to."""
    about = frozenset({"registry", "images", "gpus", "operator"})
    images = settings.images
    if images is None:
        text = (
            "is missing: say how images get into the cluster, by `registry` (they are built here "
            "and pushed there) or `images` (they are there already)"
        )
        yield Contradiction(("images",), text, about)
        return
    install = "`operator: install` needs it"
    needed = {"trainer": (images.trainer, "jobs run it")}
    if settings.gpus is not None:
        needed["trainerCuda"] = (images.trainer_cuda, "jobs on `gpus` run it")
    if settings.operator == "install":
        needed["trainingOperator"] = (images.training_operator, install)
        needed["tcpWait"] = (images.tcp_wait, install)
    for name, (image, why) in needed.items():
        if image is None:
            text = f"is missing, and {why}; name the image, or a `registry` to push it to"
            yield Contradiction(("images", name), text, about)
