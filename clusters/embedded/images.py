"""Images that the node starts with: each one static program, made here, pulled from nowhere."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO

from clusters.embedded import waiting
from clusters.embedded.command import CommandFailed, run
from clusters.embedded.component import Host
from clusters.embedded.layout import Layout
from images.programs import ENTRYPOINTS, write_archive
from infra.toolchain import Tool

NAMESPACE = "k8s.io"
"""containerd's namespace of the images that the kubelet sees."""
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
        *(Image(*each) for each in ENTRYPOINTS.items()),
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
