"""Images that the node starts with: each one static program, made here, pulled from nowhere."""

import hashlib
import tempfile
from pathlib import Path

from clusters.embedded.host import Host, image_reference
from clusters.embedded.layout import Layout
from core.paths import cache_dir
from core.process import CommandFailed, run
from core.wait import until_well
from images.build.program import ENTRYPOINTS, Program, write_archive
from images.targets.containerd import Node
from images.targets.unpacked import SUFFIX

NAMESPACE = "k8s.io"
"""containerd's namespace of the images that the kubelet sees."""
READY_LIMIT = 30
_DIGITS = 12
_PROGRAMS = {
    # Without the first one no pod starts, without the second none finds another.
    "pause": "/pause",
    "coredns": "/coredns",
    **ENTRYPOINTS,
}
"""Where each program is in its image, by its name in the toolchain, which is the image's, too."""


def missing(layout: Layout, host: Host) -> list[str]:
    """Return the images that are not on the node, by their programs' names.

    Raises:
        CommandFailed: containerd does not answer.
    """
    present = _ctr(layout, host, "images", "list", "--quiet").split()
    return [name for name in _PROGRAMS if image_reference(host.tool, name) not in present]


def ensure(layout: Layout, host: Host) -> list[str]:
    """Put every missing image on the node, once containerd answers; return their names.

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
    for name in absent:
        kept = _kept(host, name)
        if not node.link(kept):
            _unpack(node, layout, host, name, kept)
    return absent


def _kept(host: Host, name: str) -> Path:
    """Return where the image is kept as it was unpacked."""
    content = Program.of_tool(host.tool(name), _PROGRAMS[name]).content_hash
    digest = hashlib.sha256(f"{image_reference(host.tool, name)} {content}".encode()).hexdigest()
    return cache_dir() / "images" / f"{name}-{digest[:_DIGITS]}{SUFFIX}"


def _unpack(node: Node, layout: Layout, host: Host, name: str, kept: Path) -> None:
    reference = image_reference(host.tool, name)
    # On disk and not in memory: it may be 100 MB.
    with tempfile.NamedTemporaryFile(dir=layout.directory) as file:
        write_archive(file, reference, host.tool(name).path, _PROGRAMS[name])
        file.flush()
        kept.parent.mkdir(parents=True, exist_ok=True)
        node.unpack(Path(file.name), reference, kept)


def _answer_problem(layout: Layout, host: Host) -> str | None:
    try:
        missing(layout, host)
    except CommandFailed as error:
        return str(error)
    return None


def _ctr(layout: Layout, host: Host, *arguments: str) -> str:
    where = (f"--address={layout.containerd_socket}", f"--namespace={NAMESPACE}")
    return run(host.path("ctr"), *where, *arguments, limit=10)
