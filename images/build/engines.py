"""The programs that build images: docker, podman or buildah, as command lines.

Their methods return command lines and run nothing. podman and buildah keep everything in a storage
of ours; docker has its daemon's.
"""

import shutil
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from core import toolchain
from core.process import CommandFailed, run

Command = tuple[str, ...]
# zstd writes a third of the bytes: the image is in containerd in 9 s, not in 14.
_SEND = ("push", "--compression-format", "zstd")


@dataclass(frozen=True)
class Plan:
    """A build that is ready to begin.

    Args:
        context: The directory that the Dockerfile copies from.
        dockerfile: The Dockerfile's own path.
        arguments: Build arguments: `NAME=value`, or `NAME` for the value that the environment has,
            since a proxy's address may hold a password, which must not stand in a command line.
        mounts: Files that its steps may read, by where; none stays in the image. docker can't.
    """

    context: Path
    dockerfile: Path
    arguments: tuple[str, ...] = ()
    mounts: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class Docker:
    """A docker daemon. Its methods are those of every engine."""

    name: str = "docker"
    """As a message names it."""

    def pull(self, reference: str) -> Command:
        """Get the newest image of that name from its registry."""
        return ("docker", "pull", reference)

    def digest(self, reference: str) -> Command:
        """Print something that identifies the image's content; fail without the image."""
        return ("docker", "image", "inspect", "--format", "{{.Id}}", reference)

    def load(self, archive: Path) -> Command:
        """Import an archive, by the reference that it was written with."""
        return ("docker", "load", "--input", str(archive))

    def build(self, plan: Plan, reference: str) -> Command:
        """Build an image of that name; steps that were built before are not run again."""
        return ("docker", "build", *_options(plan, reference), str(plan.context))

    def save(self, reference: str, archive: Path) -> Command:
        """Write the image to a file that `ctr images import` reads."""
        return ("docker", "save", "--output", str(archive), reference)

    def push(self, reference: str, name: str, config: Path, *, plain: bool) -> Sequence[Command]:
        """Send the image to a registry.

        Args:
            reference: What it is called here.
            name: Its name in the registry, with the registry's host.
            config: A file `config.json` as docker has it, in a directory of its own: every user of
                this machine could read a login in a command line.
            plain: Whether the registry speaks HTTP without TLS.
        """
        # Its daemon takes HTTP from loopback, and has to be configured for other registries.
        push = ("docker", "--config", str(config.parent), "push", "--quiet", name)
        return (("docker", "tag", reference, name), push, self.remove(name))

    def names(self) -> Command:
        """Print the references of all images, one a line."""
        return ("docker", "images", "--format", "{{.Repository}}:{{.Tag}}")

    def remove(self, reference: str) -> Command:
        """Remove a reference, and the image when it has no other."""
        return ("docker", "rmi", reference)

    def prune(self) -> Sequence[Command]:
        """Remove layers that no image uses, such as the steps of builds that failed."""
        return ()  # Its daemon has everybody's.

    def tidy(self) -> Sequence[Command]:
        """Remove what a build that was killed left behind."""
        return ()


@dataclass(frozen=True)
class Buildah:
    """buildah, or podman, which takes the same commands.

    Args:
        name: buildah or podman.
        program: Its path.
        storage: A directory of ours for images.
        scratch: A directory for what lives as long as a command.
        driver: How layers are stacked: overlay, or vfs, which copies and works everywhere.
    """

    name: str
    program: str
    storage: Path
    scratch: Path
    driver: str

    def pull(self, reference: str) -> Command:
        return (*self._us, "pull", reference)

    def digest(self, reference: str) -> Command:
        return (*self._us, "images", "--no-trunc", "--quiet", reference)

    def load(self, archive: Path) -> Command:
        return (*self._us, "pull", f"{_format(archive)}:{archive}")

    def build(self, plan: Plan, reference: str) -> Command:
        # With vfs each layer is a copy of the image so far, so no step is kept for the next build.
        layers = "--layers=true" if self.driver == "overlay" else "--layers=false"
        # With chroot isolation a build needs no container runtime and runs inside containers, too.
        options = (layers, "--isolation", "chroot", *_options(plan, reference))
        mounts = (f"--volume={file}:{place}:ro" for place, file in plan.mounts.items())
        return (*self._us, "build", *options, *mounts, str(plan.context))

    def save(self, reference: str, archive: Path) -> Command:
        target = f"oci-archive:{archive}:{reference}"
        return (*self._us, *_SEND, reference, target)

    def push(self, reference: str, name: str, config: Path, *, plain: bool) -> Sequence[Command]:
        options = ("--authfile", str(config), *(("--tls-verify=false",) if plain else ()))
        return ((*self._us, *_SEND, *options, reference, f"docker://{name}"),)

    def names(self) -> Command:
        return (*self._us, "images", "--format", "{{.Name}}:{{.Tag}}")

    def remove(self, reference: str) -> Command:
        return (*self._us, "rmi", reference)

    def prune(self) -> Sequence[Command]:
        prune = ("image", "prune", "--force") if self.name == "podman" else ("rmi", "--prune")
        return ((*self._us, *prune),)

    def tidy(self) -> Sequence[Command]:
        # Every container in this storage is one of a build's steps.
        return ((*self._us, "rm", "--all"),)

    @property
    def _us(self) -> Command:
        roots = ("--root", str(self.storage), "--runroot", str(self.scratch / "run"))
        return (self.program, *roots, "--storage-driver", self.driver)


Engine = Docker | Buildah


def choose(storage: Path, scratch: Path) -> Engine:
    """Return the first engine that works here: docker, podman, buildah.

    Raises:
        core.toolchain.ToolMissing: none does; buildah is what `make setup` provides.
    """
    if answer("docker", "version", "--format", "{{.Server.Version}}") is not None:
        return Docker()
    if answer("podman", "info") is not None and (podman := shutil.which("podman")) is not None:
        return best_driver("podman", podman, storage, scratch)
    return best_driver("buildah", str(toolchain.path("buildah")), storage, scratch)


def answer(*command: str, limit: float = 10.0) -> str | None:
    """Return what a short command prints, None when it fails or isn't installed."""
    try:
        return run(*command, limit=limit).strip()
    except CommandFailed:
        return None


def best_driver(name: str, program: str, storage: Path, scratch: Path) -> Buildah:
    """Each driver has a storage of its own: what one began, another can't open."""
    overlay = Buildah(name, program, storage / "overlay", scratch, "overlay")
    if answer(*overlay.names()) is not None:
        return overlay
    return Buildah(name, program, storage / "vfs", scratch, "vfs")


def _format(archive: Path) -> str:
    """Return what podman calls an archive's format; docker's own newer ones are both."""
    with tarfile.open(archive) as tar:
        return "docker-archive" if "manifest.json" in tar.getnames() else "oci-archive"


def _options(plan: Plan, reference: str) -> Command:
    arguments = (word for argument in plan.arguments for word in ("--build-arg", argument))
    return ("--file", str(plan.dockerfile), "--tag", reference, *arguments)
