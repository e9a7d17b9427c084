"""What every way to bring an image in can do, and which one a map stands for.

    target_of({"kind": "kind", "cluster": "slipway-kind"}).load(archive, reference)

A kind is a frozen dataclass: the map's other keys are its fields. Its module is imported only
when a stack needs it; a kind of cluster that has a way of its own has it beside its tool.
"""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Protocol, cast

from core.text import choices, quote
from core.values import UNKNOWN, Unknown
from images.build.runner import Reporter

KINDS: Mapping[str, str] = {
    "containerd": "images.targets.containerd.Node",
    "kind": "clusters.local.image_nodes.KindNodes",
    "minikube": "clusters.local.image_nodes.MinikubeNodes",
    "registry": "images.targets.registry.Registry",
}
"""The class of each kind: a frozen dataclass."""

AFTER = "after"
"""A key of any kind's map: what has to be there before, such as a registry's ID. It is not used
otherwise: a program puts an output there, so that the engine waits for what it comes from."""


class TargetError(Exception):
    """An image can't be brought in or asked for; the text says why, and what to do."""


class Target(Protocol):
    """Where images go. `reference` is always the built image's own: `localhost/<name>:<tag>`.

    The tag changes with the content, so whatever is there by that name is what was built.
    """

    def name(self, reference: str) -> str:
        """Return what a pod calls the image there. Pure; nothing is looked at."""

    def pinned(self, name: str, digest: str) -> str:
        """Return the name that is of this digest and no other; `name` where there is none."""

    @property
    def is_up(self) -> bool:
        """Whether it can be asked and changed now. One that can't has not lost its images."""

    def digest(self, name: str) -> str | None:
        """Return what stands for the content of the image of that name; None without it.

        Raises:
            TargetError: it does not answer.
        """

    def load(self, archive: Path, reference: str, reporter: Reporter) -> None:
        """Bring the image in, by `name(reference)`, out of what `docker save` or buildah wrote.

        Args:
            archive: An archive of docker's, or of OCI's layout.
            reference: What the archive calls the image.
            reporter: Is told how far it is, and tells whether the person still wants it; what
                takes long is run by `images.build.runner.Runner`, which obeys that.

        Raises:
            TargetError: it can't be brought in.
            core.lock.Cancelled: the person asked to stop.
        """

    def tag(self, name: str, other: str) -> None:
        """Give an image that is there another name, such as `pinned`. Raises `TargetError`."""

    def remove(self, name: str) -> None:
        """Remove a name, and what only it needed, if it is there. Raises `TargetError`."""


def target_of(target: Mapping[str, Any]) -> Target:
    """Return what a resource's input `target` stands for.

    Raises:
        ValueError: there is no such kind, or it has no such key; with what is allowed.
    """
    kind = str(target.get("kind"))
    if kind not in KINDS:
        raise ValueError(f"target.kind: {quote(kind)} is not allowed; {choices(kind, KINDS)}")
    made = resolve_name(KINDS[kind])
    allowed = [each.name for each in fields(made)]
    given = {key: value for key, value in target.items() if key not in {"kind", AFTER}}
    for key in given:
        if key not in allowed:
            raise ValueError(f"target.{key}: kind {kind} has no such key; {choices(key, allowed)}")
    return cast("Target", made(**given))


def name_in(target: Any, reference: str) -> str | Unknown:
    """Return `Target.name` as far as a preview knows it: the target may hold what it does not."""
    if not isinstance(target, Mapping) or UNKNOWN in (target.get("kind"), target.get("server")):
        return UNKNOWN
    return target_of(target).name(reference)
