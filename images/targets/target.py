"""What every way to bring an image in can do, which one a map stands for, and images' names.

    target_of({"kind": "registry", "server": "example.org/team"}).load(archive, reference, reporter)

A kind of cluster that has a way of its own has it in its folder.
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
"""What makes each kind that is no cluster's own, from the map's other keys."""


class TargetError(RuntimeError):
    """An image can't be brought in or looked up; the text has the reason, and what to do."""


PROBLEMS = (TargetError, CommandFailed, ToolMissing)
"""What every method of a target but `name` and `is_up` may raise."""


class Target(ABC):
    """Where images go. `reference` is always the built image's own: `localhost/<name>:<tag>`.

    The tag changes with the content, so an existing image of that name is the one that was built.
    """

    def name(self, reference: str) -> str:
        """Return the name by which a pod uses the image. Pure; nothing is read."""
        return reference

    @property
    @abstractmethod
    def is_up(self) -> bool:
        """Whether it can be read and changed now. One that can't has not lost its images."""

    @abstractmethod
    def digest(self, name: str) -> str | None:
        """Return what stands for the image's content; None without it."""

    @abstractmethod
    def load(self, archive: Path, reference: str, reporter: Context) -> None:
        """Bring the image in, by `name(reference)`: `reference` is what the archive calls it.

        The archive is one of docker's, or of OCI's layout. `InterruptedError` is raised on Ctrl-C.
        """

    def tag(self, name: str, other: str) -> None:  # noqa: B027  # the default
        """Give an existing image another name, such as by its digest; a registry needs none."""

    def remove(self, name: str) -> None:  # noqa: B027  # the default
        """Remove a name, and what only it needed, if it exists; in a registry others may run it."""


def target_of(target: Mapping[str, Any], kinds: Mapping[str, Lazy] = TARGETS) -> Target:
    """Return what a resource's input `target`, a map with a `kind` of these, stands for."""
    made = kinds[target["kind"]].load()
    # `after`, of any kind: an output, such as a registry's ID, of a resource to be waited for.
    return cast("Target", made(**{key: target[key] for key in target.keys() - {"kind", "after"}}))


def name_in(target: Any, reference: str) -> str | Placeholder:
    """Return `Target.name` as far as a program or a preview knows it: a registry has a `server`."""
    if not isinstance(target, Mapping) or UNKNOWN in (target.get("kind"), target.get("server")):
        return UNKNOWN
    return within(str(target["server"]), reference) if "server" in target else reference


def repository(name: str) -> str:
    """Return `name` without its tag or its digest; a host's port is neither."""
    head, slash, last = name.partition("@")[0].rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}"


def by_digest(name: str, digest: str) -> str:
    """Return the name without its tag, which a node's runtime would drop anyway, by `digest`."""
    return f"{repository(name)}@{digest}"


def listed(listing: str, name: str) -> str | None:
    """Return the digest that containerd's `ctr images list` prints for a name; None without."""
    # REF TYPE DIGEST SIZE …
    rows = (line.split() for line in listing.splitlines() if line.startswith(f"{name} "))
    return next((row[2] for row in rows), None)


def within(server: str, reference: str) -> str:
    """Return what an image that is built here, `localhost/…`, is called in a registry."""
    return f"{server}/{reference.removeprefix('localhost/')}"
