"""Images that one node's containerd has unpacked: other nodes get the files as hard links.

The files are in a directory beside the image's archive. If this directory exists, it is complete:

    slipway-trainer-0123456789ab.tar
    slipway-trainer-0123456789ab.unpacked/image.tar   manifest and configuration, no layers
                                          0/ 1/ …     each layer's files, lowest layer first

So each file takes up space only once. Nodes never modify the files, since an overlay does not
change its lower layers.
"""

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import IO, Any, cast

from core.process import run

SUFFIX = ".unpacked"
REST = "image.tar"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def layers(config: dict[str, Any]) -> list[str]:
    """Return the chain IDs of an image's layers, lowest first."""
    # https://github.com/opencontainers/image-spec/blob/main/config.md#layer-chainid
    named: list[str] = []
    for difference in config["rootfs"]["diff_ids"]:
        digest = hashlib.sha256(" ".join([*named[-1:], difference]).encode()).hexdigest()
        named.append(f"sha256:{digest}" if named else difference)
    return named


def directories(mounts: str) -> list[Path]:
    """Return a snapshot's directories, topmost first, from the output of ctr's `--mounts`."""
    (mount,) = json.loads(mounts)
    options = dict(option.partition("=")[::2] for option in mount["Options"])
    if "lowerdir" not in options:
        return [Path(mount["Source"])]  # a single layer, without an overlay
    upper = [options["upperdir"]] if "upperdir" in options else []
    return [Path(each) for each in (*upper, *options["lowerdir"].split(":"))]


def link(source: Path, target: Path) -> None:
    """Hard-link a directory's files to `target`; raises `CommandFailed` across file systems."""
    places = (str(source), str(target))
    run("cp", "--archive", "--link", "--no-target-directory", *places, limit=300.0)


def write(target: Path, name: str, manifest: bytes, config: bytes) -> None:
    """Write an archive in OCI layout that contains everything except the layers' blobs."""
    # https://github.com/opencontainers/image-spec/blob/main/image-layout.md
    digests = {hashlib.sha256(blob).hexdigest(): blob for blob in (manifest, config)}
    described = {
        "mediaType": json.loads(manifest).get("mediaType", _MANIFEST),
        "digest": f"sha256:{next(iter(digests))}",
        "size": len(manifest),
        "annotations": {"org.opencontainers.image.ref.name": name},
    }
    files = {
        "oci-layout": json.dumps({"imageLayoutVersion": "1.0.0"}).encode(),
        "index.json": json.dumps({"schemaVersion": 2, "manifests": [described]}).encode(),
        **{f"blobs/sha256/{digest}": blob for digest, blob in digests.items()},
    }
    with tarfile.open(target, "w") as tar:
        for path, content in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


def config(archive: Path) -> dict[str, Any]:
    """Return an image's configuration: the last file in an archive that `write` created."""
    with tarfile.open(archive) as tar:
        file = cast("IO[bytes]", tar.extractfile(tar.getnames()[-1]))
        return cast("dict[str, Any]", json.load(file))
