"""A node's images, through containerd's own command line."""

import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra import toolchain

_ANSWER_LIMIT = 20.0
_IMPORT_LIMIT = 600.0


class NodeError(Exception):
    """The node's containerd did not do what it was asked for; the text says what it said."""


@dataclass(frozen=True)
class Node:
    """A containerd.

    Args:
        address: Its socket.
        namespace: Of the images; the kubelet's is k8s.io.
        snapshotter: How it stacks layers; an image is unpacked for one of them.
    """

    address: str
    namespace: str
    snapshotter: str = "overlayfs"

    @classmethod
    def of(cls, target: Mapping[str, Any]) -> "Node":
        """Return the node that a resource's `target` names.

        Raises:
            ValueError: the target is of a kind that isn't a containerd.
        """
        if target.get("kind") != "containerd":
            raise ValueError(
                f"target.kind: {target.get('kind')!r} is not allowed; it is containerd"
            )
        return cls(**{key: value for key, value in target.items() if key != "kind"})

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

    def digest(self, reference: str) -> str | None:
        """Return the digest of an image, None when it isn't there.

        Raises:
            NodeError: containerd does not answer.
        """
        # REF TYPE DIGEST SIZE …
        for line in self._ctr("images", "list", f"name=={reference}").splitlines():
            if line.startswith(f"{reference} "):
                return line.split()[2]
        return None

    def load(self, archive: Path) -> None:
        """Import and unpack an archive. Raises `NodeError`."""
        snapshotter = f"--snapshotter={self.snapshotter}"
        self._ctr("images", "import", snapshotter, str(archive), limit=_IMPORT_LIMIT)

    def tag(self, reference: str, name: str) -> None:
        """Give an image that is there another name as well. Raises `NodeError`."""
        self._ctr("images", "tag", "--force", reference, name)

    def remove(self, reference: str) -> None:
        """Remove an image, and what only it needed, if it is there. Raises `NodeError`."""
        if self.digest(reference) is not None:
            self._ctr("images", "remove", "--sync", reference, limit=_IMPORT_LIMIT)

    def _ctr(self, *arguments: str, limit: float = _ANSWER_LIMIT) -> str:
        where = (f"--address={self.address}", f"--namespace={self.namespace}")
        command = (str(toolchain.path("ctr")), "--connect-timeout=5s", *where, *arguments)
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=limit, check=False
            )
        except subprocess.TimeoutExpired:
            raise NodeError(f"`{' '.join(command)}` did not end within {limit:.0f} s") from None
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip()
            raise NodeError(f"`{' '.join(command)}` failed with {done.returncode}: {said}")
        return done.stdout
