"""Images in the containerds of several nodes, each of which is asked by a local cluster's tool."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from clusters.local.command import CommandFailed
from images.exclusive import Cancelled
from images.steps import Reporter
from images.targets.names import by_digest
from images.targets.target import TargetError
from infra.toolchain import ToolMissing

_ANSWER_LIMIT = 60.0
_REMOVE_LIMIT = 300.0


class EveryNode(ABC):
    """A target whose images are those that every node has."""

    @abstractmethod
    def nodes(self) -> Sequence[str]:
        """Return the names of the nodes."""

    @abstractmethod
    def execute(self, node: str, command: Sequence[str], limit: float) -> str:
        """Run a program as root on a node and return what it prints."""

    @abstractmethod
    def bring(self, archive: Path, reporter: Reporter) -> None:
        """Bring an archive's images into every node."""

    @abstractmethod
    def works(self) -> bool:
        """Whether the cluster is there and all of its nodes run."""

    def name(self, reference: str) -> str:
        return reference

    def pinned(self, name: str, digest: str) -> str:
        return by_digest(name, digest)

    @property
    def is_up(self) -> bool:
        try:
            return self.works()
        except (RuntimeError, ToolMissing):
            return False

    def digest(self, name: str) -> str | None:
        """Return the digest that all nodes have by that name; None when one has another or none."""
        with _told():
            digests = {self._digest(node, name) for node in self.nodes()}
        return digests.pop() if len(digests) == 1 else None

    def load(self, archive: Path, reference: str, reporter: Reporter) -> None:
        with _told():
            self.bring(archive, reporter)

    def tag(self, name: str, other: str) -> None:
        with _told():
            for node in self.nodes():
                self._images(node, "tag", "--force", name, other)

    def remove(self, name: str) -> None:
        with _told():
            for node in self.nodes():
                if self._digest(node, name) is not None:
                    self._images(node, "remove", "--sync", name, limit=_REMOVE_LIMIT)

    def _digest(self, node: str, name: str) -> str | None:
        # REF TYPE DIGEST SIZE …
        for line in self._images(node, "list", f"name=={name}").splitlines():
            if line.startswith(f"{name} "):
                return line.split()[2]
        return None

    def _images(self, node: str, *arguments: str, limit: float = _ANSWER_LIMIT) -> str:
        return self.execute(node, ("ctr", "--namespace=k8s.io", "images", *arguments), limit)


@contextmanager
def _told() -> Iterator[None]:
    """Tell what went wrong as every target does."""
    try:
        yield
    except InterruptedError as error:
        raise Cancelled(str(error)) from error
    except (CommandFailed, ToolMissing) as error:
        raise TargetError(str(error)) from error
