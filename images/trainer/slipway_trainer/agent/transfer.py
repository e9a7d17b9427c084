"""Copies one file from any store that fsspec knows, and finds out its sha256."""

from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from slipway_trainer.agent.artifacts import time_limit

if TYPE_CHECKING:
    from fsspec.spec import AbstractBufferedFile

STALL_SECONDS = 60.0
_CHUNK_BYTES = 8 * 2**20


class NotFetchedError(Exception):
    """What a job starts with cannot be had: which, from where, why, and what to do."""


def copy(url: str, target: Path, stall_seconds: float) -> tuple[int, str]:
    """Copy what `url` names to `target`; return its size in bytes and its sha256.

    Raises:
        TimeoutError: the store gave nothing for so many seconds.
        Exception: whatever the store's client raises.
    """
    from fsspec import url_to_fs  # noqa: PLC0415 - what it raises is to be told like the rest

    digest, size = sha256(), 0
    with time_limit(stall_seconds, "opening it"):
        store, path = url_to_fs(url)
        source: AbstractBufferedFile = store.open(path, "rb")
    with source, target.open("wb") as written:
        while True:
            with time_limit(stall_seconds, f"reading {_CHUNK_BYTES // 2**20} MiB of it"):
                chunk = source.read(_CHUNK_BYTES)
            if not chunk:
                return size, digest.hexdigest()
            written.write(chunk)
            digest.update(chunk)
            size += len(chunk)
