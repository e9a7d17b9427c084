"""Images on a node, managed with `ctr`; an image is unpacked only once for all nodes.

Other nodes get the files of an image that one node has unpacked as hard links. The files are in a
directory beside the image's archive. If this directory exists, it is complete:

    slipway-trainer-0123456789ab.tar
    slipway-trainer-0123456789ab.unpacked/image.tar   manifest and configuration, no layers
                                          0/ 1/ …     each layer's files, lowest layer first

So each file takes up space only once. Nodes never modify the files, since an overlay does not
change its lower layers.
"""

import hashlib
import io
import json
import os
import shutil
import socket
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, cast
from uuid import uuid4

from core import files, toolchain
from core.context import Context
from core.problem import raised
from core.process import CommandFailed, run
from images.build.program import add
from images.build.spec import others
from images.targets.target import Target, listed

SUFFIX = ".unpacked"
_REST = "image.tar"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_ANSWER_LIMIT = 20.0
_IMPORT_LIMIT = 1800.0


@dataclass(frozen=True)
class Node(Target):
    """A containerd instance, identified by the address of its socket."""

    address: str
    namespace: str
    """The namespace for the images; the kubelet's is k8s.io."""
    snapshotter: str = "overlayfs"
    """The snapshotter for which an image is unpacked."""

    @property
    def is_up(self) -> bool:
        """True if containerd accepts connections; its socket file may outlive a killed process."""
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(_ANSWER_LIMIT)
            return raised(partial(probe.connect, self.address), OSError) is None

    def digest(self, name: str) -> str | None:
        return listed(self._ctr("images", "list", f"name=={name}"), name)

    def load(self, archive: Path, reference: str, reporter: Context) -> None:
        kept = archive.with_suffix(SUFFIX)
        if not self.link(kept):
            self.unpack(archive, reference, kept)

    def link(self, kept: Path) -> bool:
        """Import the unpacked image from `kept`, if it exists; return whether that worked."""
        problems = (CommandFailed, OSError, ValueError, LookupError, tarfile.TarError)
        return raised(partial(self._link, kept), *problems) is None

    def unpack(self, archive: Path, reference: str, kept: Path) -> None:
        """Import an archive, and keep the unpacked image in `kept` for later calls of `link`."""
        self._import(archive)
        os.sync()  # after a power loss, containerd would list an image whose files are empty
        # Links can't cross file systems; in that case, an image is unpacked each time.
        with (
            suppress(CommandFailed, TimeoutError),
            files.locked(kept.with_name("unpacked.lock"), limit=300.0),
        ):
            if not kept.exists():
                self._keep(reference, kept)

    def tag(self, name: str, other: str) -> None:
        self._ctr("images", "tag", "--force", name, other)

    def remove(self, name: str) -> None:
        if self.digest(name) is not None:
            self._ctr("images", "remove", "--sync", name, limit=_IMPORT_LIMIT)

    def _link(self, kept: Path) -> None:
        """Import an image after creating a snapshot for each layer, so that nothing is unpacked."""
        parent, created, rest = "", [], kept / _REST
        with tarfile.open(rest) as tar:  # its last file is the configuration
            config = json.load(cast("IO[bytes]", tar.extractfile(tar.getnames()[-1])))
        try:
            for number, layer in enumerate(_chain_ids(config)):
                if raised(partial(self._snapshots, "info", layer), CommandFailed) is not None:
                    with self._mounted("prepare", parent) as (key, (top, *_)):
                        _link_files(kept / str(number), top)
                        self._snapshots("commit", layer, key)
                    created.append(layer)
                parent = layer
            self._import(rest)
        except BaseException:
            # Otherwise garbage collection might remove them while another import is using them.
            for layer in reversed(created):
                with suppress(CommandFailed):
                    self._snapshots("remove", layer)
            raise
        # Without the label that `ctr` sets, layers are removed with the last image that needs them.
        for layer in created:
            self._snapshots("label", layer, "containerd.io/gc.root=")

    def _keep(self, name: str, kept: Path) -> None:
        manifest = self._ctr("content", "get", str(self.digest(name)))
        if "layers" not in json.loads(manifest):
            return  # an index for several platforms
        config = self._ctr("content", "get", json.loads(manifest)["config"]["digest"])
        unfinished = kept.with_name("unpacked.partial")
        shutil.rmtree(unfinished, ignore_errors=True)
        # It may contain setuid programs.
        unfinished.mkdir(mode=0o700)
        try:
            layers = _chain_ids(json.loads(config))
            with self._mounted("view", layers[-1]) as (_, directories):
                if len(directories) != len(layers):
                    return  # the snapshotter does not separate layers
                for number, source in enumerate(reversed(directories)):
                    _link_files(source, unfinished / str(number))
            _write_rest(unfinished / _REST, name, manifest.encode(), config.encode())
            os.sync()
            unfinished.rename(kept)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        for other in others(kept):
            files.remove(other, unfinished)

    @contextmanager
    def _mounted(self, how: str, parent: str) -> Iterator[tuple[str, list[Path]]]:
        """Yield a temporary snapshot of `parent`: its key, and its directories, topmost first."""
        key = f"slipway-{uuid4()}"
        printed = self._snapshots(how, "--mounts", key, *([parent] if parent else []))
        try:
            yield key, _directories(printed)
        finally:
            # This fails for a committed snapshot, which has another name.
            with suppress(CommandFailed):
                self._snapshots("remove", key)

    def _snapshots(self, *arguments: str) -> str:
        return self._ctr("snapshots", f"--snapshotter={self.snapshotter}", *arguments)

    def _import(self, archive: Path) -> None:
        snapshotter = f"--snapshotter={self.snapshotter}"
        self._ctr("images", "import", snapshotter, str(archive), limit=_IMPORT_LIMIT)

    def _ctr(self, *arguments: str, limit: float = _ANSWER_LIMIT) -> str:
        where = (f"--address={self.address}", f"--namespace={self.namespace}")
        ctr = str(toolchain.path("ctr"))
        return run(ctr, "--connect-timeout=5s", *where, *arguments, limit=limit)


def _chain_ids(config: dict[str, Any]) -> list[str]:
    """Return the chain IDs of an image's layers, lowest first."""
    # https://github.com/opencontainers/image-spec/blob/main/config.md#layer-chainid
    named: list[str] = []
    for difference in config["rootfs"]["diff_ids"]:
        digest = hashlib.sha256(" ".join([*named[-1:], difference]).encode()).hexdigest()
        named.append(f"sha256:{digest}" if named else difference)
    return named


def _directories(mounts: str) -> list[Path]:
    """Return a snapshot's directories, topmost first, from the output of ctr's `--mounts`."""
    (mount,) = json.loads(mounts)
    options = dict(option.partition("=")[::2] for option in mount["Options"])
    if "lowerdir" not in options:
        return [Path(mount["Source"])]  # a single layer, without an overlay
    upper = [options["upperdir"]] if "upperdir" in options else []
    return [Path(each) for each in (*upper, *options["lowerdir"].split(":"))]


def _link_files(source: Path, target: Path) -> None:
    """Hard-link a directory's files to `target`; raises `CommandFailed` across file systems."""
    places = (str(source), str(target))
    run("cp", "--archive", "--link", "--no-target-directory", *places, limit=300.0)


def _write_rest(target: Path, name: str, manifest: bytes, config: bytes) -> None:
    """Write an archive in OCI layout that contains everything except the layers' blobs."""
    # https://github.com/opencontainers/image-spec/blob/main/image-layout.md
    digests = {hashlib.sha256(blob).hexdigest(): blob for blob in (manifest, config)}
    described = {
        "mediaType": json.loads(manifest).get("mediaType", _MANIFEST),
        "digest": f"sha256:{next(iter(digests))}",
        "size": len(manifest),
        "annotations": {"org.opencontainers.image.ref.name": name},
    }
    contents = {
        "oci-layout": json.dumps({"imageLayoutVersion": "1.0.0"}).encode(),
        "index.json": json.dumps({"schemaVersion": 2, "manifests": [described]}).encode(),
        **{f"blobs/sha256/{digest}": blob for digest, blob in digests.items()},
    }
    with tarfile.open(target, "w") as tar:
        for path, content in contents.items():
            add(tar, path, io.BytesIO(content))
