"""Command lines for the programs that build images: docker, podman or buildah."""

import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core import toolchain
from core.process import CommandFailed, run

Command = tuple[str, ...]
# With zstd, archives are a third of the size, and containerd imports one in 9 s instead of 14.
_SEND = ("push", "--compression-format", "zstd")


@dataclass(frozen=True)
class Plan:
    """The inputs for an image build."""

    context: Path
    """The directory that the Dockerfile copies from."""
    dockerfile: Path
    arguments: tuple[str, ...] = ()
    """Build arguments: `NAME=value`, or only `NAME` to take the value from the environment, which
    keeps passwords in proxy URLs off the command line."""
    mounts: Mapping[str, Path] = field(default_factory=dict)
    """Files that build steps can read, keyed by their path in the build container. They do not
    become part of the image. docker ignores them."""


@dataclass(frozen=True)
class Engine:
    """A build engine. Its methods only return command lines."""

    name: str
    """docker, podman or buildah; the last two have the same commands."""
    call: Command
    """The words that each command line starts with: the program and, for podman and buildah, the
    options that select Slipway's storage."""
    keeps_steps: bool = True
    """True if build steps are cached, so that the next build can reuse them."""

    def pull(self, reference: str) -> Command:
        """Pull the newest image with that reference from its registry."""
        return (*self.call, "pull", reference)

    def digest(self, reference: str) -> Command:
        """Print an ID or digest of the image's content, or nothing if there is no such image."""
        if self.name == "docker":
            return (*self.call, "image", "inspect", "--format", "{{.Id}}", reference)
        return (*self.call, "images", "--no-trunc", "--quiet", reference)

    def load(self, archive: Path) -> Command:
        """Import an archive under the reference that it was written with."""
        if self.name == "docker":
            return (*self.call, "load", "--input", str(archive))
        with tarfile.open(archive) as tar:
            # Newer versions of docker write archives that are in both formats.
            kind = "docker-archive" if "manifest.json" in tar.getnames() else "oci-archive"
        return (*self.call, "pull", f"{kind}:{archive}")

    def build(self, plan: Plan, reference: str) -> Command:
        arguments = (word for argument in plan.arguments for word in ("--build-arg", argument))
        options = ["--file", str(plan.dockerfile), "--tag", reference, *arguments]
        if self.name != "docker":
            options += (f"--volume={file}:{place}:ro" for place, file in plan.mounts.items())
            options += (f"--layers={str(self.keeps_steps).lower()}",)
            # Uses no container runtime, so that builds also run inside containers.
            options += ("--isolation", "chroot")
        return (*self.call, "build", *options, str(plan.context))

    def save(self, reference: str, archive: Path) -> Command:
        """Write the image to a file that `ctr images import` can read."""
        if self.name == "docker":
            return (*self.call, "save", "--output", str(archive), reference)
        return (*self.call, *_SEND, reference, f"oci-archive:{archive}:{reference}")

    def push(self, reference: str, name: str, config: Path, *, plain: bool) -> Sequence[Command]:
        """Push the image to a registry under `name`.

        The registry's credentials are in `config`, a docker config.json, because every user on this
        machine can read command lines. A `plain` registry uses HTTP without TLS.
        """
        if self.name == "docker":
            # By default, docker's daemon allows HTTP only for loopback.
            push = ("--config", str(config.parent), "push", "--quiet", name)
            return ((*self.call, "tag", reference, name), (*self.call, *push), self.remove(name))
        options = ("--authfile", str(config), *(("--tls-verify=false",) if plain else ()))
        return ((*self.call, *_SEND, *options, reference, f"docker://{name}"),)

    def names(self) -> Command:
        """Print the references of all images, one per line."""
        name = "{{.Name}}" if self.name == "buildah" else "{{.Repository}}"
        return (*self.call, "images", "--format", f"{name}:{{{{.Tag}}}}")

    def remove(self, reference: str) -> Command:
        """Remove a reference, and the image if it has no other reference."""
        return (*self.call, "rmi", reference)

    def prune(self) -> Sequence[Command]:
        """Remove unused data, such as steps from builds that failed or were killed."""
        if self.name == "docker":
            return ()  # The daemon also holds other users' images.
        prune = ("rmi", "--prune") if self.name == "buildah" else ("image", "prune", "--force")
        # Every container in this storage is a build step.
        return ((*self.call, "rm", "--all"), (*self.call, *prune))


TOOLS = ("buildah", "mmdebstrap")
"""The tools that build images without docker and podman."""


def needed(cluster: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the tools that setup must provide to build images, given the cluster's settings."""
    return () if cluster.get("images") or _working() else TOOLS


def choose(storage: Path, scratch: Path) -> Engine:
    """Return the first engine that works: docker, podman or buildah; may raise `ToolMissing`."""
    if (program := _working()) == "docker":
        return Engine(program, (program,))
    if program is not None:
        return with_storage(program, program, storage, scratch)
    try:
        return with_storage("buildah", str(toolchain.path("buildah")), storage, scratch)
    except toolchain.ToolMissing as error:
        remedy = "To build images, start docker or podman, or install buildah"
        raise toolchain.ToolMissing(f"{remedy}. {error}") from None


def _working() -> str | None:
    """Return docker or podman, whichever works first, or None."""
    questions = (("docker", "version", "--format", "{{.Server.Version}}"), ("podman", "info"))
    return next((each[0] for each in questions if answer(*each) is not None), None)


def with_storage(name: str, program: str, storage: Path, scratch: Path) -> Engine:
    """Return podman or buildah with Slipway's own storage; `scratch` holds temporary files.

    Layers use the overlay driver, or else vfs, which works everywhere. With vfs, each layer is a
    full copy, so steps are not cached. The two drivers can't read each other's storage.
    """

    def stacked(driver: str) -> Engine:
        roots = ("--root", str(storage / driver), "--runroot", str(scratch / "run"))
        call = (program, *roots, "--storage-driver", driver)
        return Engine(name, call, keeps_steps=driver == "overlay")

    overlay = stacked("overlay")
    return overlay if answer(*overlay.names()) is not None else stacked("vfs")


def answer(*command: str, limit: float = 10.0) -> str | None:
    """Return the output of a short command, or None if the command fails or isn't installed."""
    try:
        return run(*command, limit=limit).strip()
    except CommandFailed:
        return None
