"""The programs that build images: docker, podman or buildah, as command lines."""

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
    """A build that is ready to begin."""

    context: Path
    """The directory that the Dockerfile copies from."""
    dockerfile: Path
    arguments: tuple[str, ...] = ()
    """Build arguments: `NAME=value`, or `NAME` for the value that the environment has, since a
    proxy's address may hold a password, which must not stand in a command line."""
    mounts: Mapping[str, Path] = field(default_factory=dict)
    """Files that its steps may read, by where; none stays in the image. docker can't."""


@dataclass(frozen=True)
class Engine:
    """An engine. Its methods return command lines and run nothing."""

    name: str
    """docker, podman or buildah, which takes podman's commands."""
    call: Command
    """What its command lines begin with; for podman and buildah, with a storage of our own."""
    keeps_steps: bool = True
    """Whether the next build may use the steps of this one."""

    def pull(self, reference: str) -> Command:
        """Get the newest image of that name from its registry."""
        return (*self.call, "pull", reference)

    def digest(self, reference: str) -> Command:
        """Print something that identifies the image's content; fail without the image."""
        if self._is_docker:
            return (*self.call, "image", "inspect", "--format", "{{.Id}}", reference)
        return (*self.call, "images", "--no-trunc", "--quiet", reference)

    def load(self, archive: Path) -> Command:
        """Import an archive, by the reference that it was written with."""
        if self._is_docker:
            return (*self.call, "load", "--input", str(archive))
        with tarfile.open(archive) as tar:
            # docker's own newer archives are of both formats.
            kind = "docker-archive" if "manifest.json" in tar.getnames() else "oci-archive"
        return (*self.call, "pull", f"{kind}:{archive}")

    def build(self, plan: Plan, reference: str) -> Command:
        arguments = (word for argument in plan.arguments for word in ("--build-arg", argument))
        options = ["--file", str(plan.dockerfile), "--tag", reference, *arguments]
        if not self._is_docker:
            options += (f"--volume={file}:{place}:ro" for place, file in plan.mounts.items())
            options += (f"--layers={str(self.keeps_steps).lower()}",)
            # A build needs no container runtime then, and runs inside containers, too.
            options += ("--isolation", "chroot")
        return (*self.call, "build", *options, str(plan.context))

    def save(self, reference: str, archive: Path) -> Command:
        """Write the image to a file that `ctr images import` reads."""
        if self._is_docker:
            return (*self.call, "save", "--output", str(archive), reference)
        return (*self.call, *_SEND, reference, f"oci-archive:{archive}:{reference}")

    def push(self, reference: str, name: str, config: Path, *, plain: bool) -> Sequence[Command]:
        """Send the image to a registry, by the `name` that it has there.

        The login is in a docker config.json, in a directory of its own: every user of this machine
        can read command lines. A `plain` registry speaks HTTP without TLS.
        """
        if self._is_docker:
            # Its daemon takes HTTP from loopback, and has to be configured for other registries.
            push = ("--config", str(config.parent), "push", "--quiet", name)
            tag = (*self.call, "tag", reference, name)
            return (tag, (*self.call, *push), self.remove(name))
        options = ("--authfile", str(config), *(("--tls-verify=false",) if plain else ()))
        return ((*self.call, *_SEND, *options, reference, f"docker://{name}"),)

    def names(self) -> Command:
        """Print the references of all images, one a line."""
        name = "{{.Repository}}" if self._is_docker else "{{.Name}}"
        return (*self.call, "images", "--format", f"{name}:{{{{.Tag}}}}")

    def remove(self, reference: str) -> Command:
        """Remove a reference, and the image when it has no other."""
        return (*self.call, "rmi", reference)

    def prune(self) -> Sequence[Command]:
        """Remove what no image uses, such as the steps of builds that failed or were killed."""
        if self._is_docker:
            return ()  # Its daemon has everybody's.
        prune = ("rmi", "--prune") if self.name == "buildah" else ("image", "prune", "--force")
        # Every container in this storage is one of a build's steps.
        return ((*self.call, "rm", "--all"), (*self.call, *prune))

    @property
    def _is_docker(self) -> bool:
        return self.name == "docker"


DOCKER = Engine("docker", ("docker",))


def choose(storage: Path, scratch: Path) -> Engine:
    """Return the first engine that works here: docker, podman, buildah; or raise `ToolMissing`."""
    if answer("docker", "version", "--format", "{{.Server.Version}}") is not None:
        return DOCKER
    if answer("podman", "info") is not None and (podman := shutil.which("podman")) is not None:
        return with_storage("podman", podman, storage, scratch)
    return with_storage("buildah", str(toolchain.path("buildah")), storage, scratch)


def with_storage(name: str, program: str, storage: Path, scratch: Path) -> Engine:
    """Return podman or buildah with a storage of our own, and `scratch` for each command's files.

    Layers are stacked by the kernel's overlay or else by vfs, which works everywhere. With vfs each
    one is a copy of the image so far, so no step is kept. What one began, the other can't open.
    """

    def stacked(driver: str) -> Engine:
        roots = ("--root", str(storage / driver), "--runroot", str(scratch / "run"))
        call = (program, *roots, "--storage-driver", driver)
        return Engine(name, call, keeps_steps=driver == "overlay")

    overlay = stacked("overlay")
    return overlay if answer(*overlay.names()) is not None else stacked("vfs")


def answer(*command: str, limit: float = 10.0) -> str | None:
    """Return what a short command prints, None when it fails or isn't installed."""
    try:
        return run(*command, limit=limit).strip()
    except CommandFailed:
        return None
