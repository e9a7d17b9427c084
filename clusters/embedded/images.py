"""Images that the node starts with: each one static program, made here, pulled from nowhere."""

import hashlib
import io
import json
import platform
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from clusters.embedded import waiting
from clusters.embedded.command import CommandFailed, run
from clusters.embedded.component import Host
from clusters.embedded.layout import Layout
from infra.toolchain import Tool

NAMESPACE = "k8s.io"
"""containerd's namespace of the images that the kubelet sees."""
NOBODY = "65532:65532"
READY_LIMIT = 30
IMPORT_LIMIT = 120


@dataclass(frozen=True)
class Image:
    """A program as an image.

    Args:
        tool: The program's name in the toolchain, and the image's.
        entrypoint: Where it is in the image.
    """

    tool: str
    entrypoint: str


IMAGES = {
    image.tool: image
    for image in (
        # Without the first one no pod starts, without the second none finds another.
        Image("pause", "/pause"),
        Image("coredns", "/coredns"),
        Image("tcp-wait", "/tcp-wait"),
        Image("training-operator", "/manager"),
    )
}


def reference(tool: Callable[[str], Tool], name: str) -> str:
    """What a pod calls the image. Raises `infra.toolchain.ToolMissing`."""
    return f"slipway.local/{name}:{tool(name).version}"


def missing(layout: Layout, host: Host) -> list[Image]:
    """The images that are not on the node.

    Raises:
        CommandFailed: containerd does not answer.
    """
    there = _ctr(layout, host, "images", "list", "--quiet").split()
    return [image for name, image in IMAGES.items() if reference(host.tool, name) not in there]


def ensure(layout: Layout, host: Host) -> list[str]:
    """Put every image on the node that is not there, once containerd answers; return their names.

    Raises:
        TimeoutError: containerd does not answer within `READY_LIMIT` seconds.
        CommandFailed: containerd refuses an image.
    """
    waiting.until_well(
        lambda: _answer_problem(layout, host),
        what="containerd answering",
        limit=READY_LIMIT,
        log=layout.log("containerd"),
    )
    absent = missing(layout, host)
    for image in absent:
        # On disk and not in memory: it may be 100 MB.
        with tempfile.TemporaryFile(dir=layout.directory) as file:
            binary = host.tool(image.tool).path
            write_archive(file, reference(host.tool, image.tool), binary, image.entrypoint)
            file.seek(0)
            snapshotter = f"--snapshotter={host.snapshotter}"
            _ctr(layout, host, "images", "import", snapshotter, "-", stdin=file, limit=IMPORT_LIMIT)
    return [image.tool for image in absent]


def write_archive(file: IO[bytes], name: str, binary: Path, entrypoint: str) -> None:
    """Write an image with one program as `docker save` does (image specification 1.2).

    The same program gives the same bytes: no time or user of this machine is in them.
    """
    with _layer(binary, entrypoint) as (layer, digest), tarfile.open(fileobj=file, mode="w") as tar:
        config = {
            "architecture": _architecture(),
            "os": "linux",
            "config": {"Entrypoint": [entrypoint], "User": NOBODY, "WorkingDir": "/"},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
        config_text = json.dumps(config).encode()
        config_name = f"{hashlib.sha256(config_text).hexdigest()}.json"
        manifest = [{"Config": config_name, "RepoTags": [name], "Layers": ["layer.tar"]}]
        _add(tar, "layer.tar", layer)
        _add(tar, config_name, io.BytesIO(config_text))
        _add(tar, "manifest.json", io.BytesIO(json.dumps(manifest).encode()))


@contextmanager
def _layer(binary: Path, entrypoint: str) -> Iterator[tuple[IO[bytes], str]]:
    with tempfile.TemporaryFile() as layer:
        with tarfile.open(fileobj=layer, mode="w") as tar:
            # Programs expect it; webhook servers write their certificates there.
            scratch = tarfile.TarInfo("tmp")
            scratch.type, scratch.mode = tarfile.DIRTYPE, 0o1777
            tar.addfile(scratch)
            with binary.open("rb") as program:
                _add(tar, entrypoint.lstrip("/"), program, mode=0o755)
        layer.seek(0)
        digest = hashlib.file_digest(layer, "sha256").hexdigest()
        layer.seek(0)
        yield layer, digest


def _add(tar: tarfile.TarFile, name: str, content: IO[bytes], mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.mode = mode
    entry.size = content.seek(0, io.SEEK_END)
    content.seek(0)
    tar.addfile(entry, content)


def _architecture() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]


def _answer_problem(layout: Layout, host: Host) -> str | None:
    try:
        missing(layout, host)
    except CommandFailed as error:
        return str(error)
    return None


def _ctr(
    layout: Layout, host: Host, *arguments: str, stdin: IO[bytes] | None = None, limit: float = 10
) -> str:
    where = (f"--address={layout.containerd_socket}", f"--namespace={NAMESPACE}")
    return run(host.path("ctr"), *where, *arguments, stdin=stdin, limit=limit)
