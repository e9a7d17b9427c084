"""Images that the node starts with: each one static program, made here, pulled from nowhere."""

import hashlib
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from clusters.embedded.host import Host
from clusters.embedded.layout import Layout
from core.paths import cache_dir
from core.process import CommandFailed, run
from core.toolchain import Tool
from core.wait import until_well
from images.build.program import ENTRYPOINTS, Program, write_archive
from images.targets.containerd import Node
from images.targets.unpacked import SUFFIX

NAMESPACE = "k8s.io"
"""containerd's namespace of the images that the kubelet sees."""
READY_LIMIT = 30
_DIGITS = 12


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
    """What a pod calls the image. Raises `core.toolchain.ToolMissing`."""
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
        images.targets.target.TargetError: containerd refuses an image.
    """
    until_well(
        lambda: _answer_problem(layout, host),
        what="containerd answering",
        limit=READY_LIMIT,
        log=layout.log("containerd"),
    )
    node = Node(str(layout.containerd_socket), NAMESPACE, host.snapshotter)
    absent = missing(layout, host)
    for image in absent:
        kept = _kept(host, image)
        if not node.link(kept):
            _unpack(node, layout, host, image, kept)
    return [image.tool for image in absent]


def _kept(host: Host, image: Image) -> Path:
    """Where the image is kept as it was unpacked."""
    tool = host.tool(image.tool)
    told = f"{reference(host.tool, image.tool)} {Program(tool, image.entrypoint).content_hash}"
    digest = hashlib.sha256(told.encode()).hexdigest()[:_DIGITS]
    return cache_dir() / "images" / f"{image.tool}-{digest}{SUFFIX}"


def _unpack(node: Node, layout: Layout, host: Host, image: Image, kept: Path) -> None:
    name = reference(host.tool, image.tool)
    # On disk and not in memory: it may be 100 MB.
    with tempfile.NamedTemporaryFile(dir=layout.directory) as file:
        write_archive(file, name, host.tool(image.tool).path, image.entrypoint)
        file.flush()
        kept.parent.mkdir(parents=True, exist_ok=True)
        node.unpack(Path(file.name), name, kept)


def _answer_problem(layout: Layout, host: Host) -> str | None:
    try:
        missing(layout, host)
    except CommandFailed as error:
        return str(error)
    return None


def _ctr(layout: Layout, host: Host, *arguments: str) -> str:
    where = (f"--address={layout.containerd_socket}", f"--namespace={NAMESPACE}")
    return run(host.path("ctr"), *where, *arguments, limit=10)
