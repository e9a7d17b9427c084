"""An image as containerd has unpacked it once: the next containerd gets its files as hard links.

Beside the image's archive is a directory with what a containerd needs of it:

    slipway-trainer-0123456789ab.tar
    slipway-trainer-0123456789ab.unpacked/image.tar   the archive without the layers' blobs
                                          0/ 1/ …     the files of each layer, the lowest first

So a file uses its space once, in however many clusters it is, and removing one of them only removes
names. Nobody writes to it: containers see a layer as the lower directory of an overlay.
"""

import hashlib
import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Protocol, cast
from uuid import uuid4

from images.exclusive import exclusively
from images.steps import Reporter
from images.targets.target import TargetError

SUFFIX = ".unpacked"
_LINK_LIMIT = 300.0
_ROOT = "containerd.io/gc.root"
"""`ctr` gives it to what it makes, which containerd's garbage collector then never removes."""


class Snapshots(Protocol):
    """Runs `ctr snapshots` with these arguments."""

    def __call__(self, *arguments: str) -> str:
        """Return what it printed. Raises `TargetError`."""


class NotLinked(Exception):
    """Files can't be linked from here to there, which may be two file systems."""


def directory(archive: Path) -> Path:
    """Return where the unpacked image of `archive` is; there as a whole or not at all."""
    return archive.with_suffix(SUFFIX)


@contextmanager
def linked(unpacked: Path, snapshots: Snapshots) -> Iterator[Path]:
    """Give a containerd the layers, and yield the archive that is left to import.

    What `ctr images import` then finds unpacked, it does not unpack.

    Raises:
        NotLinked: the layers can't be linked into it.
        TargetError: it refuses them.
    """
    parent, taken = "", []
    try:
        for number, layer in enumerate(chain(unpacked / "image.tar")):
            if not _is_there(layer, snapshots):
                with _active(snapshots, "prepare", parent) as (key, (top, *_)):
                    _link(unpacked / str(number), top)
                    snapshots("commit", layer, key)
                taken.append(layer)
            parent = layer
        yield unpacked / "image.tar"
    finally:
        # From here on the image keeps them; without it they go.
        for layer in taken:
            snapshots("label", layer, f"{_ROOT}=")


def keep(archive: Path, snapshots: Snapshots, reporter: Reporter) -> None:
    """Keep the layers of an archive that a containerd has unpacked.

    Raises:
        NotLinked: they can't be linked into the archive's directory.
        TargetError: containerd does not answer.
        images.exclusive.Cancelled: the user asked to stop.
    """
    lock, partial = archive.parent / "unpacked.lock", archive.parent / "unpacked.partial"
    with exclusively(lock, cancelled=reporter.cancelled, waiting=lambda: None):
        if directory(archive).exists() or not _is_oci(archive):
            return
        shutil.rmtree(partial, ignore_errors=True)
        # Programs that run as their owner, root, are among the files.
        partial.mkdir(mode=0o700)
        try:
            with _active(snapshots, "view", chain(archive)[-1]) as (_, directories):
                for number, source in enumerate(reversed(directories)):
                    _link(source, partial / str(number))
            _copy_without_layers(archive, partial / "image.tar")
            partial.rename(directory(archive))
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def chain(archive: Path) -> tuple[str, ...]:
    """Return what containerd calls an image's layers, the lowest first.

    https://github.com/opencontainers/image-spec/blob/main/config.md#layer-chainid
    """
    with tarfile.open(archive) as tar:
        _, config = _described(tar)
        differences: list[str] = _json(tar, config)["rootfs"]["diff_ids"]
    named = differences[:1]
    for difference in differences[1:]:
        digest = hashlib.sha256(f"{named[-1]} {difference}".encode()).hexdigest()
        named.append(f"sha256:{digest}")
    return tuple(named)


@contextmanager
def _active(snapshots: Snapshots, how: str, parent: str) -> Iterator[tuple[str, list[Path]]]:
    """Make a snapshot above `parent`; yield its key and its directories, the topmost first."""
    key = f"slipway-{uuid4()}"
    (mount,) = json.loads(snapshots(how, "--mounts", key, *([parent] if parent else [])))
    try:
        yield key, _directories(mount)
    finally:
        # A committed one has another name.
        with suppress(TargetError):
            snapshots("remove", key)


def _directories(mount: dict[str, Any]) -> list[Path]:
    options = dict(option.partition("=")[::2] for option in mount["Options"])
    if "lowerdir" not in options:
        return [Path(mount["Source"])]  # of one layer alone: nothing is laid over another
    upper = [options["upperdir"]] if "upperdir" in options else []
    return [Path(each) for each in (*upper, *options["lowerdir"].split(":"))]


def _is_there(layer: str, snapshots: Snapshots) -> bool:
    try:
        snapshots("info", layer)
    except TargetError:
        return False
    return True


def _link(source: Path, target: Path) -> None:
    """Make `target` the same directory: with the owners, modes and attributes of `source`."""
    command = ("cp", "--archive", "--link", "--no-target-directory", source, target)
    try:
        subprocess.run(command, capture_output=True, text=True, timeout=_LINK_LIMIT, check=True)
    except subprocess.CalledProcessError as error:
        raise NotLinked(error.stderr.strip().splitlines()[-1]) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotLinked(str(error)) from error


def _is_oci(archive: Path) -> bool:
    """Whether it has the manifest; docker's older ones don't, and containerd makes it."""
    with tarfile.open(archive) as tar:
        return "index.json" in tar.getnames()


def _copy_without_layers(archive: Path, target: Path) -> None:
    with tarfile.open(archive) as whole, tarfile.open(target, "w") as rest:
        manifest, config = _described(whole)
        for name in ("oci-layout", "index.json", manifest, config):
            rest.addfile(whole.getmember(name), whole.extractfile(name))


def _described(tar: tarfile.TarFile) -> tuple[str, str]:
    """Return where an archive of OCI's layout has its image's manifest and configuration."""
    (image,) = _json(tar, "index.json")["manifests"]
    manifest = _blob(image)
    return manifest, _blob(_json(tar, manifest)["config"])


def _blob(descriptor: dict[str, Any]) -> str:
    return "blobs/" + descriptor["digest"].replace(":", "/")


def _json(tar: tarfile.TarFile, name: str) -> Any:
    return json.loads(cast("IO[bytes]", tar.extractfile(name)).read())
