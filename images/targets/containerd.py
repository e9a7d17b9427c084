"""A node's images, through containerd's own command line."""

import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from core import toolchain
from core.context import Context
from core.process import CommandFailed, run
from images.targets.target import Target, TargetError, listed
from images.targets.unpacked import SUFFIX, NotLinked, Unpacked

_ANSWER_LIMIT = 20.0
_IMPORT_LIMIT = 600.0


@dataclass(frozen=True)
class Node(Target):
    """A containerd.

    Args:
        address: Its socket.
        namespace: Of the images; the kubelet's is k8s.io.
        snapshotter: How it stacks layers; an image is unpacked for one of them.
    """

    address: str
    namespace: str
    snapshotter: str = "overlayfs"

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
        return listed(self._ctr("images", "list", f"name=={name}"), name)

    def load(self, archive: Path, reference: str, reporter: Context) -> None:
        kept = archive.with_suffix(SUFFIX)
        if not self.link(kept):
            self.unpack(archive, reference, kept)

    def link(self, kept: Path) -> bool:
        """Bring in the image that was unpacked and kept in that directory, if it was."""
        if not kept.exists():
            return False
        try:
            with self._unpacked(kept).linked() as rest:
                self._import(rest)
        except (NotLinked, TargetError):
            return False
        return True

    def unpack(self, archive: Path, reference: str, kept: Path) -> None:
        """Bring in an archive, and keep what it unpacks to for the next `link`."""
        self._import(archive)
        # Links end at a file system: where they can't be made, an image is unpacked each time.
        with suppress(NotLinked, TargetError, TimeoutError):
            self._unpacked(kept).keep(reference)

    def tag(self, name: str, other: str) -> None:
        self._ctr("images", "tag", "--force", name, other)

    def remove(self, name: str) -> None:
        if self.digest(name) is not None:
            self._ctr("images", "remove", "--sync", name, limit=_IMPORT_LIMIT)

    def _import(self, archive: Path) -> None:
        snapshotter = f"--snapshotter={self.snapshotter}"
        self._ctr("images", "import", snapshotter, str(archive), limit=_IMPORT_LIMIT)

    def _unpacked(self, kept: Path) -> Unpacked:
        return Unpacked(kept, self._ctr, self.snapshotter)

    def _ctr(self, *arguments: str, limit: float = _ANSWER_LIMIT) -> str:
        where = (f"--address={self.address}", f"--namespace={self.namespace}")
        command = (str(toolchain.path("ctr")), "--connect-timeout=5s", *where, *arguments)
        try:
            return run(*command, limit=limit)
        except CommandFailed as error:
            raise TargetError(str(error)) from None
