"""The interface of image targets, their lookup by a map, and the names of images.

    target_of({"kind": "registry", "server": "example.org/team"}).load(archive, reference, reporter)

A target of one kind of cluster only is in the folder of that kind.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from core.context import Context
from core.handler import UNKNOWN, Lazy, Placeholder
from core.process import CommandFailed
from core.toolchain import ToolMissing

TARGETS: Mapping[str, Lazy] = {
    "containerd": Lazy("images.targets.containerd.Node"),
    "registry": Lazy("images.targets.registry.Registry"),
}
"""The class of each common kind, which takes the map's other keys."""


class TargetError(RuntimeError):
    """An image can't be transferred or looked up; the message has reason and remedy."""


PROBLEMS = (TargetError, CommandFailed, ToolMissing)
"""The errors of all methods of a target except `name` and `is_up`."""


class Target(ABC):
    """A target of images. `reference` is the local one of a built image: `localhost/<name>:<tag>`.

    The tag changes with the content, so an existing image of that name has the same content.
    """

    def name(self, reference: str) -> str:
        """Return the image's reference for pods. Pure."""
        return reference

    @property
    @abstractmethod
    def is_up(self) -> bool:
        """True if it can be read and changed now; otherwise its images count as unchanged."""

    @abstractmethod
    def digest(self, name: str) -> str | None:
        """Return the digest of the image's content; None if it does not exist."""

    @abstractmethod
    def load(self, archive: Path, reference: str, reporter: Context) -> None:
        """Import the image as `name(reference)`; `reference` is its name in the archive.

        The archive has docker's format or the OCI layout. Raises `InterruptedError` on Ctrl-C.
        """

    def tag(self, name: str, other: str) -> None:  # noqa: B027  # the default
        """Tag an existing image with another name, such as its digest; no-op in a registry."""

    def remove(self, name: str) -> None:  # noqa: B027  # the default
        """Remove a name and its unshared data, if it exists; no-op in a shared registry."""


def target_of(target: Mapping[str, Any], kinds: Mapping[str, Lazy] = TARGETS) -> Target:
    """Return the target of a resource's input `target`, a map with one of these kinds."""
    make = kinds[target["kind"]].load()
    # `after`, in any kind, is an output of a resource to wait for, such as a registry's ID.
    return cast("Target", make(**{key: target[key] for key in target.keys() - {"kind", "after"}}))


def name_in(target: Any, reference: str) -> str | Placeholder:
    """Return `Target.name`, if known to a program or preview; a registry has a `server`."""
    if not isinstance(target, Mapping) or UNKNOWN in (target.get("kind"), target.get("server")):
        return UNKNOWN
    return within(str(target["server"]), reference) if "server" in target else reference


def repository(name: str) -> str:
    """Return `name` without its tag or digest, but with the host's port."""
    head, slash, last = name.partition("@")[0].rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}"


def by_digest(name: str, digest: str) -> str:
    """Return the name with `digest` instead of its tag, which a node's runtime would drop."""
    return f"{repository(name)}@{digest}"


def listed(listing: str, name: str) -> str | None:
    """Return the digest of a name in the output of `ctr images list`; None without one."""
    # REF TYPE DIGEST SIZE …
    rows = (line.split() for line in listing.splitlines() if line.startswith(f"{name} "))
    return next((row[2] for row in rows), None)


def within(server: str, reference: str) -> str:
    """Return the name in a registry of a local image, `localhost/…`."""
    return f"{server}/{reference.removeprefix('localhost/')}"
