"""Image targets: their interface, the `target` maps that describe them, and image names.

    target_of({"kind": "registry", "server": "example.org/team"}).load(archive, reference, reporter)

Targets that only one kind of cluster uses are in that kind's folder.
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
"""The class for each kind of target that several kinds of clusters use. The other keys in a
`target` map are the class's arguments."""


class TargetError(RuntimeError):
    """An image can't be transferred or looked up; the message gives the reason and a remedy."""


PROBLEMS = (TargetError, CommandFailed, ToolMissing)
"""The errors that a target's methods, other than `name` and `is_up`, may raise."""


class Target(ABC):
    """A destination for images: a node's containerd, or a registry.

    `reference` is the local reference of a built image: `localhost/<name>:<tag>`. The tag changes
    with the content, so an existing image with that name has the same content.
    """

    def name(self, reference: str) -> str:
        """Return the reference that pods use for the image; does not access the target."""
        return reference

    @property
    @abstractmethod
    def is_up(self) -> bool:
        """True if the target is reachable; otherwise its images count as unchanged."""

    @abstractmethod
    def digest(self, name: str) -> str | None:
        """Return the digest of the image's content, or None if the image does not exist."""

    @abstractmethod
    def load(self, archive: Path, reference: str, reporter: Context) -> None:
        """Import the image as `name(reference)`; `reference` is its name in the archive.

        The archive is in docker format or OCI layout. Raises `InterruptedError` on Ctrl-C.
        """

    def tag(self, name: str, other: str) -> None:  # noqa: B027  # the default
        """Tag the image `name` with the name `other`, such as its digest; no-op in a registry."""

    def remove(self, name: str) -> None:  # noqa: B027  # the default
        """Remove an image's name, if it exists, and data that only it uses; no-op in a registry."""


def target_of(target: Mapping[str, Any], kinds: Mapping[str, Lazy] = TARGETS) -> Target:
    """Return the target described by a resource's `target` input, which is a map with a `kind`."""
    make = kinds[target["kind"]].load()
    # `after`, in any kind, is an output of a resource to wait for, such as a registry's ID.
    return cast("Target", make(**{key: target[key] for key in target.keys() - {"kind", "after"}}))


def name_in(target: Any, reference: str) -> str | Placeholder:
    """Return the reference that pods will use for an image, or `UNKNOWN` if it is not known yet."""
    if not isinstance(target, Mapping) or UNKNOWN in (target.get("kind"), target.get("server")):
        return UNKNOWN
    return within(str(target["server"]), reference) if "server" in target else reference


def repository(name: str) -> str:
    """Return `name` without its tag or digest, but with the host's port."""
    head, slash, last = name.partition("@")[0].rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}"


def by_digest(name: str, digest: str) -> str:
    """Return the name with `digest` instead of its tag: with both, runtimes ignore the tag."""
    return f"{repository(name)}@{digest}"


def listed(listing: str, name: str) -> str | None:
    """Return a name's digest in the output of `ctr images list`, or None if it is not listed."""
    # REF TYPE DIGEST SIZE …
    rows = (line.split() for line in listing.splitlines() if line.startswith(f"{name} "))
    return next((row[2] for row in rows), None)


def within(server: str, reference: str) -> str:
    """Return the name in the registry `server` for an image with the local name `localhost/…`."""
    return f"{server}/{reference.removeprefix('localhost/')}"
