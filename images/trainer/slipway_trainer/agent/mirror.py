"""Copy a program's directory to an fsspec URL while the program runs.

Files removed locally are also removed at the URL. A storage error does not stop training; the next
round retries.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

from slipway.events import Events, own_rank
from slipway_trainer.agent import artifacts
from slipway_trainer.agent.artifacts import described, limit_seconds, sort, store_of, time_limit

_State = tuple[int, int]
"""A file's modification time in nanoseconds, and its size in bytes."""


class Mirror:
    """A copy of a directory at an fsspec URL, and the files that this process transferred."""

    def __init__(
        self, directory: Path, url: str, gather: Callable[[], None] = lambda: None
    ) -> None:
        # `gather` adds files to the directory before each round.
        self.directory, self.url, self._gather = directory, url, gather
        self._copied: dict[str, _State] = {}
        self._warned = ""

    def fetch(self) -> None:
        """Fetch the files from the URL."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with time_limit(limit_seconds([]), f"listing {self.url}"):
            store, root = store_of(self.url)
            names = [path.removeprefix(f"{root}/") for path in store.find(root)]
        for left in self.directory.glob("step-*.pt") if names and own_rank() > 0 else ():
            if left.name not in names:
                # Only rank 0 writes these and, in the store, has removed it since the last start.
                left.unlink()
        for name in names:
            target = self.directory / name
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                # Not by `get_file`, which some stores' clients do in memory.
                artifacts.copy(f"{self.url}/{name}", target)
                self._copied[name] = _state(target)
            except FileNotFoundError:  # rank 0 has just removed it
                target.unlink(missing_ok=True)

    @contextmanager
    def following(self, seconds: float, work: Callable[[], None] | None = None) -> Iterator[None]:
        """Copy changed files, or call `work`, every `seconds` while the `with` body runs."""
        work, has_ended = work or self.copy, Event()

        def follow() -> None:
            while not has_ended.wait(seconds):
                work()

        # A daemon thread, so that a blocked storage client does not keep this process alive.
        thread = Thread(target=follow, name="mirror", daemon=True)
        thread.start()
        try:
            yield
        finally:
            has_ended.set()
            thread.join(limit_seconds([size for _, size in self._files().values()]))

    def copy(self, settled_seconds: float = 2.0) -> None:
        """Copy changed files, but not those modified less than `settled_seconds` ago.

        The program may still be writing those.
        """
        before = time.time_ns() - int(settled_seconds * 1e9)
        self._gather()
        files = self._files()
        changed = {
            name: state
            for name, state in files.items()
            if state != self._copied.get(name) and state[0] <= before
        }
        removed = self._copied.keys() - files.keys()
        try:
            if changed or removed:
                self._apply(changed, removed)
            self._warned = ""
        except Exception as error:  # noqa: BLE001 - each store raises its own errors
            text = f"{self.directory} has not been copied to {self.url} yet: {described(error)}"
            if self._warned != text:
                Events(own_rank()).warning(text)
            self._warned = text

    def unchanged(self) -> set[str]:
        """Return the files that have not changed since they were copied."""
        return {name for name, state in self._files().items() if state == self._copied.get(name)}

    def _apply(self, changed: dict[str, _State], removed: set[str]) -> None:
        store, root = store_of(self.url)
        for name, state in changed.items():
            store.makedirs(f"{root}/{name}".rpartition("/")[0], exist_ok=True)
            store.put_file(str(self.directory / name), f"{root}/{name}")
            self._copied[name] = state
        # Remove files last, so that there is always a checkpoint.
        for name in removed:
            with suppress(FileNotFoundError):  # another pod has already removed it
                store.rm(f"{root}/{name}")
            del self._copied[name]

    def _files(self) -> dict[str, _State]:
        files = {}
        for name, path in sort(self.directory)[0].items():
            with suppress(FileNotFoundError):  # the program has just removed it
                if path.suffix != ".part":  # written by `slipway.checkpoints`
                    files[name] = _state(path)
        return files


def _state(path: Path) -> _State:
    about = path.stat()
    return about.st_mtime_ns, about.st_size
