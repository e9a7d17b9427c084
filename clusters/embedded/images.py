"""The images that a new node gets. Each contains one static program and is built locally."""

import hashlib
import tempfile
from functools import partial
from pathlib import Path

from clusters.embedded import host
from clusters.embedded.layout import Layout
from core import toolchain
from core.paths import cache_dir
from core.problem import raised
from core.process import CommandFailed, run
from core.wait import until_well
from images.build.program import ENTRYPOINTS, Program, write_archive
from images.targets.containerd import SUFFIX, Node

NAMESPACE = "k8s.io"
"""containerd's namespace for the kubelet's images."""
_PROGRAMS = {
    # Pods need pause to start, and coredns to find each other.
    "pause": "/pause",
    "coredns": "/coredns",
    **ENTRYPOINTS,
}
"""The path of each program in its image, keyed by the name that tool and image share."""


def missing(layout: Layout) -> list[str]:
    """Return the names of the programs whose images are not on the node."""
    where = (f"--address={layout.containerd_socket}", f"--namespace={NAMESPACE}")
    present = run(host.path("ctr"), *where, "images", "list", "--quiet", limit=10).split()
    return [name for name in _PROGRAMS if host.image_reference(name) not in present]


def ensure(layout: Layout) -> list[str]:
    """Wait for containerd, load all missing images onto the node, and return their names."""
    until_well(
        lambda: raised(partial(missing, layout), CommandFailed),
        what="containerd to respond",
        limit=30,
        log=layout.log("containerd"),
    )
    node = Node(str(layout.containerd_socket), NAMESPACE, host.snapshotter(layout))
    absent = missing(layout)
    for name in absent:
        tool, reference, entry = toolchain.tool(name), host.image_reference(name), _PROGRAMS[name]
        content = Program.from_tool(tool, entry).content_hash
        digest = hashlib.sha256(f"{reference} {content}".encode()).hexdigest()
        kept = cache_dir() / "images" / f"{name}-{digest[:12]}{SUFFIX}"
        if node.link(kept):
            continue
        # On disk rather than in memory, as the archive may be 100 MB.
        with tempfile.NamedTemporaryFile(dir=layout.directory) as file:
            write_archive(file, reference, tool.path, entry)
            file.flush()
            kept.parent.mkdir(parents=True, exist_ok=True)
            node.unpack(Path(file.name), reference, kept)
    return absent
