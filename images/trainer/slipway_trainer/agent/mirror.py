"""Copies what a program writes into a directory to an fsspec URL, while the program runs.

What the program removes is removed at the URL, too. No training ends because a store does not
answer: what one round could not copy, the next one tries again.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

from slipway.events import Events, own_rank
from slipway_trainer.agent.artifacts import LIMIT_SECONDS, described, sort, store_of, time_limit

_State = tuple[int, int]
"""When a file was last changed, in nanoseconds, and its size in bytes."""


class Mirror:
    """The files of a directory at an fsspec URL, of those that this process copied or fetched."""

    def __init__(
        self, directory: Path, url: str, gather: Callable[[], None] = lambda: None
    ) -> None:
        # What `gather` puts into the directory is looked for with the rest.
        self.directory, self.url, self._gather = directory, url, gather
        self._copied: dict[str, _State] = {}
        self._warned = ""

    def fetch(self, other: str | None = None) -> bool:
        """Put what the URL has, or another, into the directory; return whether there are files."""
        self.directory.mkdir(parents=True, exist_ok=True)
        url = self.url if other is None else other
        with time_limit(LIMIT_SECONDS, f"fetching {url}"):
            store, root = store_of(url)
            for path in store.find(root):
                name = path.removeprefix(f"{root}/")
                target = self.directory / name
                target.parent.mkdir(parents=True, exist_ok=True)
                store.get_file(path, str(target))
                self._copied[name] = _state(target)  # so another URL's stay there alone
        return bool(self._copied)

    @contextmanager
    def following(self, seconds: float) -> Iterator[None]:
        """Copy what has changed every so many seconds, for as long as the body takes."""
        has_ended = Event()

        def follow() -> None:
            while not has_ended.wait(seconds):
                self.copy()

        # What the store's client waits for ends with this process.
        thread = Thread(target=follow, name="mirror", daemon=True)
        thread.start()
        try:
            yield
        finally:
            has_ended.set()
            thread.join(LIMIT_SECONDS)

    def copy(self, settled_seconds: float = 2.0) -> None:
        """Copy what has changed, but files younger than that, which may still be written."""
        before = time.time_ns() - int(settled_seconds * 1e9)
        self._gather()
        found = self._found()
        changed = {
            name: state
            for name, state in found.items()
            if state != self._copied.get(name) and state[0] <= before
        }
        gone = self._copied.keys() - found.keys()
        try:
            if changed or gone:
                self._bring(changed, gone)
            self._warned = ""
        except Exception as error:  # noqa: BLE001 - every store has errors of its own
            text = f"{self.directory} is not copied to {self.url} yet: {described(error)}"
            if self._warned != text:
                Events(own_rank()).emit("warning", warning=text)
            self._warned = text

    def unchanged(self) -> set[str]:
        """Return the files that are as they were copied last."""
        return {name for name, state in self._found().items() if state == self._copied.get(name)}

    def _bring(self, changed: dict[str, _State], gone: set[str]) -> None:
        store, root = store_of(self.url)
        for name, state in changed.items():
            store.makedirs(f"{root}/{name}".rpartition("/")[0], exist_ok=True)
            store.put_file(str(self.directory / name), f"{root}/{name}")
            self._copied[name] = state
        # Last: of checkpoints there is always one.
        for name in gone:
            with suppress(FileNotFoundError):  # another pod was quicker
                store.rm(f"{root}/{name}")
            del self._copied[name]

    def _found(self) -> dict[str, _State]:
        found = {}
        for name, path in sort(self.directory)[0].items():
            with suppress(FileNotFoundError):  # the program has just removed it
                if path.suffix != ".part":  # of `slipway.checkpoints`
                    found[name] = _state(path)
        return found


def _state(path: Path) -> _State:
    about = path.stat()
    return about.st_mtime_ns, about.st_size
