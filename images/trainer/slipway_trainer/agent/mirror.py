"""Copy a program's directory to an fsspec URL while the program runs.

Removed files are also removed at the URL. An error of the store does not stop the training: the
next round retries.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

from slipway.events import Events, own_rank
from slipway_trainer.agent.artifacts import LIMIT_SECONDS, described, sort, store_of, time_limit

_State = tuple[int, int]
"""The modification time of a file in nanoseconds, and its size in bytes."""


class Mirror:
    """A copy of a directory at an fsspec URL, with the files that this process transferred."""

    def __init__(
        self, directory: Path, url: str, gather: Callable[[], None] = lambda: None
    ) -> None:
        # `gather` adds files to the directory before each round.
        self.directory, self.url, self._gather = directory, url, gather
        self._copied: dict[str, _State] = {}
        self._warned = ""

    def fetch(self, other: str | None = None) -> bool:
        """Fetch the files of the URL, or of `other`; return whether there are any."""
        self.directory.mkdir(parents=True, exist_ok=True)
        url = self.url if other is None else other
        with time_limit(LIMIT_SECONDS, f"fetching {url}"):
            store, root = store_of(url)
            for path in store.find(root):
                name = path.removeprefix(f"{root}/")
                target = self.directory / name
                target.parent.mkdir(parents=True, exist_ok=True)
                store.get_file(path, str(target))
                self._copied[name] = _state(target)  # so another URL's stay only there
        return bool(self._copied)

    @contextmanager
    def following(self, seconds: float) -> Iterator[None]:
        """Copy changed files every `seconds` while the body runs."""
        has_ended = Event()

        def follow() -> None:
            while not has_ended.wait(seconds):
                self.copy()

        # A daemon, so that a waiting client of the store ends with this process.
        thread = Thread(target=follow, name="mirror", daemon=True)
        thread.start()
        try:
            yield
        finally:
            has_ended.set()
            thread.join(LIMIT_SECONDS)

    def copy(self, settled_seconds: float = 2.0) -> None:
        """Copy changed files, except those younger than `settled_seconds`: may be incomplete."""
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
        except Exception as error:  # noqa: BLE001 - every store has its own errors
            text = f"{self.directory} is not copied to {self.url} yet: {described(error)}"
            if self._warned != text:
                Events(own_rank()).emit("warning", warning=text)
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
        # Last, so that there is always a checkpoint.
        for name in removed:
            with suppress(FileNotFoundError):  # another pod was faster
                store.rm(f"{root}/{name}")
            del self._copied[name]

    def _files(self) -> dict[str, _State]:
        files = {}
        for name, path in sort(self.directory)[0].items():
            with suppress(FileNotFoundError):  # the program has just removed it
                if path.suffix != ".part":  # of `slipway.checkpoints`
                    files[name] = _state(path)
        return files


def _state(path: Path) -> _State:
    about = path.stat()
    return about.st_mtime_ns, about.st_size
