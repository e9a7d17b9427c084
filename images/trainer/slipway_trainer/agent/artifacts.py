"""Copy a program's output directory to an fsspec URL, and verify the copies.

Any URL that fsspec supports works: file:///results (a volume), abfs://container/folder with
adlfs and its AZURE_STORAGE_* variables, s3://bucket/folder and gs://bucket/folder with obstore and
its AWS_* and GOOGLE_* variables. https://filesystem-spec.readthedocs.io/

If a stack keeps its jobs' files, two runs of each job are kept: the latest, and the last successful
one before it. Pods do not know whether their run succeeds, so the id of the last run that did is
passed to the next run's pods.

    <url>/<run id>/                 a run's files
    <url>/<run id>/.slipway-ended   exists if rank 0's program exited with 0
"""

import json
import os
import re
import signal
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipway.checkpoint_store import sha256_of
from slipway.events import Events

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

LIMIT_SECONDS = 600
STALL_SECONDS = 60.0
LIST = "artifacts.json"
_ENDED = ".slipway-ended"
_CHUNK_BYTES = 8 * 2**20
_COPIED = f"skipped are {LIST}, links to folders, and files that can't be read or named in UTF-8"
_DUMP = "\n\nDebug source:"


class NotArrivedError(OSError):
    """A file in the store differs from the one that was sent."""


def store_of(url: str) -> "tuple[AbstractFileSystem, str]":
    """Return the fsspec file system for `url`, and the path in it; raises fsspec's errors."""
    from fsspec import url_to_fs  # noqa: PLC0415 - takes 0.1 s, and most jobs copy nothing

    if (scheme := url.partition("://")[0]) in {"s3", "gs"}:
        from obstore.fsspec import register  # noqa: PLC0415 - as above

        register(scheme)
    store, path = url_to_fs(url)
    return store, path


def described(error: Exception) -> str:
    """Return the type and message of a storage client's error, without obstore's debug dump."""
    return f"{type(error).__name__}: {str(error).partition(_DUMP)[0]}"


def sync(
    directory: Path, url: str, events: Events, sent: Collection[str] = ()
) -> dict[str, dict[str, Any]]:
    """Copy all files in `directory` to `url` and return {path: {url, sha256, bytes}}.

    `LIST`, the list of files, is written last, so if it exists, all files are complete. It is the
    first entry in the result. Files in `sent` are already there, and are only verified.

    Raises `TimeoutError` after `limit_seconds`, `NotArrivedError`, or the storage client's errors.
    """
    begun, files = time.monotonic(), dict[str, dict[str, Any]]()
    paths, others = sort(directory)
    if others:
        names = ", ".join(map(ascii, others))
        events.warning(f"not copied from {directory}: {names:.500}; {_COPIED}")
    for name, path in paths.items():
        files[name] = _entry(url, name, sha256_of(path), path.stat().st_size)
    if not files:
        return {}
    sizes = [entry["bytes"] for entry in files.values()]
    with time_limit(limit_seconds(sizes), f"copying {len(files)} files to {url}"):
        store, root = store_of(url)
        targets = {name: f"{root}/{name}" for name in files}
        for folder in dict.fromkeys(target.rpartition("/")[0] for target in targets.values()):
            store.makedirs(folder, exist_ok=True)
        due = [name for name in files if name not in sent]
        store.put([str(directory / name) for name in due], [targets[name] for name in due])
        for name, entry in files.items():
            _verify(store, targets[name], entry)
            events.emit("artifact", path=name, **entry)
        content = json.dumps(files, indent=2).encode()
        store.pipe_file(f"{root}/{LIST}", content)
        itself = _entry(url, LIST, sha256(content).hexdigest(), len(content))
        _verify(store, f"{root}/{LIST}", itself)
    seconds = round(time.monotonic() - begun, 3)
    events.emit("artifacts", url=url, files=len(files), bytes=sum(sizes), seconds=seconds)
    return {LIST: itself, **files}


def limit_seconds(sizes: Collection[int]) -> float:
    """Return how long a transfer of files of these sizes may take, at 10 MB/s and 2 files/s."""
    return LIMIT_SECONDS + sum(sizes) / 10e6 + len(sizes) / 2


def sort(directory: Path) -> tuple[dict[str, Path], list[str]]:
    """Return a directory's files, keyed by relative path, and the paths that can't be copied."""
    files, others = dict[str, Path](), list[str]()
    for path in sorted(directory.rglob("*")):
        name = str(path.relative_to(directory))
        is_readable = path.is_file() and os.access(path, os.R_OK)
        # Few stores support control characters, or surrogates for bytes that are not UTF-8.
        if is_readable and name != LIST and re.search("[\x00-\x1f\x7f\ud800-\udfff]", name) is None:
            files[name] = path
        elif path.is_symlink() or (path.exists() and not path.is_dir()):
            others.append(name)
    return files, others


def _entry(url: str, name: str, digest: str, size: int) -> dict[str, Any]:
    return {"url": f"{url.rstrip('/')}/{name}", "sha256": digest, "bytes": size}


def _verify(store: "AbstractFileSystem", target: str, sent: dict[str, Any]) -> None:
    """Raise `NotArrivedError` if the copy differs from the file that was sent."""
    store.invalidate_cache()
    size = store.info(target)["size"]
    if size != sent["bytes"]:
        raise NotArrivedError(f"{target} is {size} bytes long, but {sent['bytes']} bytes were sent")
    if size > 64 * 2**20:  # reading it back would take as long as sending it
        return
    digest = sha256(store.cat_file(target)).hexdigest()
    if digest != sent["sha256"]:
        raise NotArrivedError(f"{target} has sha256 {digest}, but {sent['sha256']} was sent")


def copy(url: str, target: Path, stall_seconds: float = STALL_SECONDS) -> tuple[int, str]:
    """Copy the file at `url` to `target`; return its size in bytes and its sha256.

    Raises `TimeoutError` if a read takes longer than `stall_seconds`.
    """
    digest, size = sha256(), 0
    with time_limit(stall_seconds, "opening the file"):
        store, path = store_of(url)
        source = store.open(path, "rb")
    with source, target.open("wb") as written:
        while True:
            with time_limit(stall_seconds, f"reading {_CHUNK_BYTES // 2**20} MiB of the file"):
                chunk = source.read(_CHUNK_BYTES)
            if not chunk:
                return size, digest.hexdigest()
            written.write(chunk)
            digest.update(chunk)
            size += len(chunk)


def reach(url: str, seconds: float = 30) -> None:
    """Raise `TimeoutError` unless the store for `url` responds within `seconds`.

    Without this limit, a store's client may retry for minutes.
    """
    with time_limit(seconds, f"reaching {url}"):
        store, root = store_of(url)
        store.exists(root)


def exists(url: str) -> bool:
    """Return whether there is a file at `url`; raises the storage client's errors."""
    store, path = store_of(url)
    with suppress(FileNotFoundError):
        return bool(store.info(path))  # fsspec's own `exists` returns False for any error
    return False


def prune(url: str, run_id: str, succeeded: str | None, *, is_success: bool) -> None:
    """Remove files in `url` from runs before `run_id`.

    Files from the last successful run, `succeeded`, are kept. If `succeeded` is None, files from
    every run whose program exited with 0 are kept.
    """
    store, root = store_of(url)
    if is_success:
        store.pipe_file(f"{root}/{run_id}/{_ENDED}", run_id.encode())
    store.invalidate_cache()

    def is_old(name: str) -> bool:
        is_kept = name == succeeded or (not succeeded and exists(f"{url}/{name}/{_ENDED}"))
        # The time of submission; before it is the job's name, which a rename changes.
        return name.split("-")[-3:] < run_id.split("-")[-3:] and not is_kept

    remove_folders(url, is_old)


def remove_folders(url: str, is_old: Callable[[str], bool]) -> None:
    """Remove the folders directly below `url` whose names satisfy `is_old`."""
    store, root = store_of(url)
    try:
        entries = store.ls(root, detail=True)
    except FileNotFoundError:  # another worker may have removed the last folder
        return
    for entry in entries:
        name = entry["name"].rstrip("/").rpartition("/")[2]
        if entry["type"] == "directory" and is_old(name):
            with suppress(FileNotFoundError):  # another elastic worker was faster
                store.rm(entry["name"], recursive=True)


@contextmanager
def time_limit(seconds: float, what: str) -> Iterator[None]:
    """Raise `TimeoutError` in the `with` body after `seconds`; works only in the main thread."""

    def end(_number: int, _frame: object) -> None:
        raise TimeoutError(f"{what} did not finish within {seconds:.0f} seconds")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
