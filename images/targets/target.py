"""What every way to bring an image in can do, which one a map stands for, and images' names.

    target_of({"kind": "registry", "server": "example.org/team"}).load(archive, reference, reporter)

A kind is a frozen dataclass: the map's other keys are its fields. Its module is imported only
when a stack needs it. A kind of cluster that has a way of its own has it in its folder, and
`infra.provider.resources` knows them all.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

from core.context import Context
from core.handler import UNKNOWN, Unknown
from core.lazy import Lazy
from core.problem import choices, quote

TARGETS: Mapping[str, Lazy] = {
    "containerd": Lazy("images.targets.containerd.Node"),
    "registry": Lazy("images.targets.registry.Registry"),
}
"""The class of each kind that is no cluster's own: a frozen dataclass."""

OURS = frozenset({"localhost", "slipway.local"})
"""What stands where a registry's host would, in names of images that are built here."""
AFTER = "after"
"""A key of any kind's map: what has to exist first, such as a registry's ID. Its only use is that
the engine waits for the resource that this output comes from."""


class TargetError(Exception):
    """An image can't be brought in or looked up; the text has the reason, and what to do."""


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
        """Return what stands for the content of the image of that name; None without it.

        Raises:
            TargetError: it does not answer.
        """

    @abstractmethod
    def load(self, archive: Path, reference: str, reporter: Context) -> None:
        """Bring the image in, by `name(reference)`, out of what `docker save` or buildah wrote.

        Args:
            archive: An archive of docker's, or of OCI's layout.
            reference: What the archive calls the image.
            reporter: Shows progress, and knows whether the user has stopped the program; what
                takes long is run by `images.build.runner.Runner`, which obeys that.

        Raises:
            TargetError: it can't be brought in.
            InterruptedError: the user stopped the program.
        """

    @abstractmethod
    def tag(self, name: str, other: str) -> None:
        """Give an existing image another name, such as by its digest. Raises `TargetError`."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a name, and what only it needed, if it exists. Raises `TargetError`."""


def target_of(target: Mapping[str, Any], kinds: Mapping[str, Lazy] = TARGETS) -> Target:
    """Return what a resource's input `target` stands for.

    Args:
        target: A map with a `kind`.
        kinds: The class of each.

    Raises:
        ValueError: the kind or one of its keys is unknown; the text has what is allowed.
    """
    kind = str(target.get("kind"))
    if kind not in kinds:
        raise ValueError(f"target.kind: {quote(kind)} is not allowed; {choices(kind, kinds)}")
    made = kinds[kind].load()
    allowed = [each.name for each in fields(made)]
    given = {key: value for key, value in target.items() if key not in {"kind", AFTER}}
    for key in given:
        if key not in allowed:
            raise ValueError(f"target.{key}: kind {kind} has no such key; {choices(key, allowed)}")
    return cast("Target", made(**given))


def name_in(target: Any, reference: str) -> str | Unknown:
    """Return `Target.name` as far as a program or a preview knows it.

    A node's runtime calls an image as it is called where it is built; a registry, which has a
    `server`, does not.
    """
    if not isinstance(target, Mapping) or UNKNOWN in (target.get("kind"), target.get("server")):
        return UNKNOWN
    return within(str(target["server"]), reference) if "server" in target else reference


def repository(name: str) -> str:
    """Return `name` without its tag or its digest; a host's port is neither."""
    plain = name.partition("@")[0]
    head, slash, last = plain.rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}"


def tag(name: str) -> str:
    """Return what follows the repository: the digest, else the tag, else `latest`."""
    plain, _, digest = name.partition("@")
    return digest or plain.rpartition("/")[2].partition(":")[2] or "latest"


def by_digest(name: str, digest: str) -> str:
    """Return the name without its tag, which a node's runtime would drop anyway, by `digest`."""
    return f"{repository(name)}@{digest}"


def listed(listing: str, name: str) -> str | None:
    """Return the digest that containerd's `ctr images list` prints for a name; None without."""
    # REF TYPE DIGEST SIZE …
    for line in listing.splitlines():
        if line.startswith(f"{name} "):
            return line.split()[2]
    return None


def within(server: str, reference: str) -> str:
    """Return what an image that is built here is called in a registry.

    Args:
        server: The registry's host, with a path in it where it has one.
        reference: Such as `localhost/slipway-trainer:0123456789ab`.
    """
    host, _, rest = reference.partition("/")
    return f"{server}/{rest if host in OURS else reference}"
