"""An image as containerd has unpacked it once: the next containerd gets its files as hard links.

Beside the image's archive is a directory with what a containerd needs of it:

    slipway-trainer-0123456789ab.tar
    slipway-trainer-0123456789ab.unpacked/image.tar   manifest and configuration, no layers
                                          0/ 1/ …     the files of each layer, the lowest first

So a file uses its space once, in however many clusters it is, and removing one of them only removes
names. It is never written to: containers see a layer as the lower directory of an overlay.
"""

import hashlib
import io
import json
import re
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol, cast
from uuid import uuid4

from core import files
from core.process import CommandFailed, run
from images.targets.target import TargetError, listed

SUFFIX = ".unpacked"
_LIMIT = 300.0
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_ROOT = "containerd.io/gc.root"
"""`ctr` gives it to what it makes, which containerd's garbage collector then never removes."""


class Ctr(Protocol):
    """Runs containerd's command line."""

    def __call__(self, *arguments: str) -> str:
        """Return what it printed. Raises `TargetError`."""


class NotLinked(Exception):
    """Files can't be linked between two directories, which may be on two file systems."""


@dataclass(frozen=True)
class Unpacked:
    """What is kept of an image, and a containerd that takes it or gives it.

    Args:
        directory: Where it is kept; it exists only when complete.
        ctr: Runs the command line of that containerd.
        snapshotter: How it stacks layers.
    """

    directory: Path
    ctr: Ctr
    snapshotter: str

    @contextmanager
    def linked(self) -> Iterator[Path]:
        """Give the containerd all layers, and yield the archive that is left to import.

        What `ctr images import` then finds unpacked, it does not unpack.

        Raises:
            NotLinked: the layers can't be linked into it.
            TargetError: it refuses them.
        """
        parent, taken = "", []
        rest = self.directory / "image.tar"
        try:
            for number, layer in enumerate(chain(_config(rest))):
                if not self._has(layer):
                    with self._mounted("prepare", parent) as (key, (top, *_)):
                        _link(self.directory / str(number), top)
                        self._snapshots("commit", layer, key)
                    taken.append(layer)
                parent = layer
            yield rest
        finally:
            # From here on they go with the last image that needs them.
            for layer in taken:
                self._snapshots("label", layer, f"{_ROOT}=")

    def keep(self, name: str) -> None:
        """Keep the image of that name, which the containerd has unpacked.

        Raises:
            NotLinked: its layers can't be linked into the directory's file system.
            TargetError: containerd does not answer, or has no such image.
            TimeoutError: another process has been keeping images for too long.
        """
        images = self.directory.parent
        with files.locked(images / "unpacked.lock", limit=_LIMIT):
            if not self.directory.exists():
                self._keep(name, images / "unpacked.partial")

    def _keep(self, name: str, partial: Path) -> None:
        digest = str(listed(self.ctr("images", "list", f"name=={name}"), name))
        manifest = self.ctr("content", "get", digest)
        if "layers" not in json.loads(manifest):
            return  # of several platforms
        config = self.ctr("content", "get", json.loads(manifest)["config"]["digest"])
        shutil.rmtree(partial, ignore_errors=True)
        # It may contain programs that run with their owner's rights.
        partial.mkdir(mode=0o700)
        try:
            layers = chain(json.loads(config))
            with self._mounted("view", layers[-1]) as (_, directories):
                if len(directories) != len(layers):
                    raise NotLinked(f"{self.snapshotter} does not keep layers apart")
                for number, source in enumerate(reversed(directories)):
                    _link(source, partial / str(number))
            _write(partial / "image.tar", name, manifest.encode(), config.encode())
            partial.rename(self.directory)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        self._forget_others()

    def _forget_others(self) -> None:
        """Remove what is kept of other contents of the same name."""
        # Not by `<name>-*`: that is how another image's name may go on.
        name, _, _ = self.directory.stem.rpartition("-")
        same = re.compile(rf"{re.escape(name)}-[0-9a-f]+{re.escape(SUFFIX)}")
        for path in self.directory.parent.iterdir():
            if same.fullmatch(path.name) and path != self.directory:
                shutil.rmtree(path, ignore_errors=True)

    @contextmanager
    def _mounted(self, how: str, parent: str) -> Iterator[tuple[str, list[Path]]]:
        """Make a snapshot above `parent`; yield its key and its directories, the topmost first."""
        key = f"slipway-{uuid4()}"
        printed = self._snapshots(how, "--mounts", key, *([parent] if parent else []))
        try:
            (mount,) = json.loads(printed)
            yield key, _directories(mount)
        finally:
            # A committed one has another name.
            with suppress(TargetError):
                self._snapshots("remove", key)

    def _has(self, layer: str) -> bool:
        try:
            self._snapshots("info", layer)
        except TargetError:
            return False
        return True

    def _snapshots(self, *arguments: str) -> str:
        return self.ctr("snapshots", f"--snapshotter={self.snapshotter}", *arguments)


def chain(config: dict[str, Any]) -> list[str]:
    """Return what containerd calls an image's layers, the lowest first.

    https://github.com/opencontainers/image-spec/blob/main/config.md#layer-chainid
    """
    named: list[str] = []
    for difference in config["rootfs"]["diff_ids"]:
        digest = hashlib.sha256(" ".join([*named[-1:], difference]).encode()).hexdigest()
        named.append(f"sha256:{digest}" if named else difference)
    return named


def _directories(mount: dict[str, Any]) -> list[Path]:
    options = dict(option.partition("=")[::2] for option in mount["Options"])
    if "lowerdir" not in options:
        return [Path(mount["Source"])]  # of one layer alone: nothing is laid over another
    upper = [options["upperdir"]] if "upperdir" in options else []
    return [Path(each) for each in (*upper, *options["lowerdir"].split(":"))]


def _link(source: Path, target: Path) -> None:
    """Make `target` the same directory: with the owners, modes and attributes of `source`."""
    places = (str(source), str(target))
    try:
        run("cp", "--archive", "--link", "--no-target-directory", *places, limit=_LIMIT)
    except CommandFailed as error:
        raise NotLinked(f"{source} can't be linked to {target}") from error


def _write(target: Path, name: str, manifest: bytes, config: bytes) -> None:
    """Write an archive of OCI's layout without the layers' blobs.

    https://github.com/opencontainers/image-spec/blob/main/image-layout.md
    """
    described = {
        "mediaType": json.loads(manifest).get("mediaType", _MANIFEST),
        "digest": f"sha256:{hashlib.sha256(manifest).hexdigest()}",
        "size": len(manifest),
        "annotations": {"org.opencontainers.image.ref.name": name},
    }
    files = {
        "oci-layout": json.dumps({"imageLayoutVersion": "1.0.0"}).encode(),
        "index.json": json.dumps({"schemaVersion": 2, "manifests": [described]}).encode(),
        **{f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}": blob for blob in (manifest, config)},
    }
    with tarfile.open(target, "w") as tar:
        for path, content in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


def _config(archive: Path) -> dict[str, Any]:
    """Return the configuration in an archive that `_write` wrote, its last file."""
    with tarfile.open(archive) as tar:
        file = cast("IO[bytes]", tar.extractfile(tar.getnames()[-1]))
        return cast("dict[str, Any]", json.load(file))
