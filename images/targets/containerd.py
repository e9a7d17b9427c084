"""A node's images, through containerd's own command line."""

import socket
from dataclasses import dataclass
from pathlib import Path

from core import toolchain
from core.context import Context
from core.process import run
from images.targets.target import Target, listed

_ANSWER_LIMIT = 20.0
_IMPORT_LIMIT = 600.0


@dataclass(frozen=True)
class Node(Target):
    """A containerd, by its socket's address."""

    address: str
    namespace: str
    """Of the images; the kubelet's is k8s.io."""
    snapshotter: str = "overlayfs"
    """How it stacks layers; an image is unpacked for one of them."""

    @property
    def is_up(self) -> bool:
        """Whether a containerd listens: one that was killed leaves its socket's file behind."""
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(_ANSWER_LIMIT)
            try:
                probe.connect(self.address)
            except OSError:
                return False
        return True

    def digest(self, name: str) -> str | None:
        return listed(self._ctr("list", f"name=={name}"), name)

    def load(self, archive: Path, reference: str, reporter: Context) -> None:
        snapshotter = f"--snapshotter={self.snapshotter}"
        self._ctr("import", snapshotter, str(archive), limit=_IMPORT_LIMIT)

    def tag(self, name: str, other: str) -> None:
        self._ctr("tag", "--force", name, other)

    def remove(self, name: str) -> None:
        if self.digest(name) is not None:
            self._ctr("remove", "--sync", name, limit=_IMPORT_LIMIT)

    def _ctr(self, *arguments: str, limit: float = _ANSWER_LIMIT) -> str:
        where = (f"--address={self.address}", f"--namespace={self.namespace}")
        ctr = str(toolchain.path("ctr"))
        return run(ctr, "--connect-timeout=5s", *where, "images", *arguments, limit=limit)
