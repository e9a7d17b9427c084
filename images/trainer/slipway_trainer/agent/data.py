"""Fetches a job's `data` once for all pods that share a cache, proves what it is, and unpacks it.

`slipway_trainer.agent.inputs` runs this before the job's program. The cache has a directory for
each content, by its sha256; it gets that name when all of it is there, so what was interrupted is
begun anew. A tar or zip archive is unpacked into it, any other file lies in it by its own name.
"""

import fcntl
import os
import shutil
import socket
import tarfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from slipway_trainer.agent.artifacts import described, store_of, time_limit

STALL_SECONDS = 60.0
_TURN_SECONDS = 3600.0
_POLL_SECONDS = 0.5
_CHUNK_BYTES = 8 * 2**20


class NotFetchedError(Exception):
    """What a job starts with cannot be had: which, from where, why, and what to do."""


@dataclass(frozen=True)
class Data:
    """What a job trains on: a file or an archive, and the directory of the cache."""

    url: str
    sha256: str
    cache: str

    @property
    def directory(self) -> Path:
        """Where the job finds it."""
        return Path(self.cache, self.sha256)

    def __str__(self) -> str:
        return f"data {self.url}"


def fetch(data: Data, turn_seconds: float = _TURN_SECONDS) -> int:
    """See that the cache has it, and return how many bytes were fetched for that: 0 if it had it.

    Raises:
        NotFetchedError: it is not there, it is something else, or it can't be unpacked.
    """
    cache = Path(data.cache)
    # Of this pod: where a lock holds for one node only, others may be fetching it, too.
    own = f".{data.sha256}.{socket.gethostname()}"
    packed, part = cache / f"{own}.packed", cache / f"{own}.part"
    with _turn(data, turn_seconds):
        if data.directory.is_dir():
            return 0
        try:
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir()
            size, digest = copy(data.url, packed)
            if digest != data.sha256:
                raise NotFetchedError(  # noqa: TRY301 - raised again as it is
                    f"{data} has the sha256 {digest}, and the job's `data.sha256` is "
                    f"{data.sha256}: correct the one that is wrong"
                )
            name = PurePosixPath(unquote(urlsplit(data.url).path)).name
            unpack(packed, part, name if name.strip(".") else "data")
            os.sync()
            try:
                part.rename(data.directory)
            except OSError:
                if not data.directory.is_dir():  # or else another node was faster
                    raise
        except NotFetchedError:
            raise
        except Exception as error:
            raise NotFetchedError(
                f"{data} could not be fetched: {described(error)}. Check that the URL "
                "is right, that this job has what the store asks for (its `env`, its Secrets), and "
                "that the cache has room for the archive beside its content"
            ) from error
        finally:
            packed.unlink(missing_ok=True)
            shutil.rmtree(part, ignore_errors=True)
    return size


def copy(url: str, target: Path, stall_seconds: float = STALL_SECONDS) -> tuple[int, str]:
    """Copy what `url` names to `target`; return its size in bytes and its sha256.

    `TimeoutError` is raised when the store gave nothing for so many seconds.
    """
    digest, size = sha256(), 0
    with time_limit(stall_seconds, "opening it"):
        store, path = store_of(url)
        source = store.open(path, "rb")
    with source, target.open("wb") as written:
        while True:
            with time_limit(stall_seconds, f"reading {_CHUNK_BYTES // 2**20} MiB of it"):
                chunk = source.read(_CHUNK_BYTES)
            if not chunk:
                return size, digest.hexdigest()
            written.write(chunk)
            digest.update(chunk)
            size += len(chunk)


def unpack(packed: Path, directory: Path, name: str) -> None:
    """Unpack a tar or zip archive into `directory`; put any other file there as `name`."""
    try:
        if tarfile.is_tarfile(packed):
            with tarfile.open(packed) as tar:
                # No absolute paths, no links that lead out, no devices: PEP 706.
                tar.extractall(directory, filter="data")
        elif zipfile.is_zipfile(packed):
            with zipfile.ZipFile(packed) as archive:
                for each in archive.namelist():
                    path = PurePosixPath(each)
                    if path.is_absolute() or ".." in path.parts:
                        raise NotFetchedError(f"the zip archive has {each}, which leads out of it")
                archive.extractall(directory)  # noqa: S202 - its names are checked above
        else:
            packed.rename(directory / name)
    except (tarfile.TarError, zipfile.BadZipFile) as error:
        raise NotFetchedError(f"the archive can't be unpacked: {error}") from error


@contextmanager
def _turn(data: Data, limit_seconds: float) -> Iterator[None]:
    """Wait until no other pod is fetching the same; the lock ends with the process that has it."""
    cache = Path(data.cache)
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f".{data.sha256}.lock").open("w") as lock:
        until = time.monotonic() + limit_seconds
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise NotFetchedError(
                        f"{data}: another pod has been fetching it for {limit_seconds:.0f} s. See "
                        "that pod's log, and remove it if it hangs"
                    ) from None
                time.sleep(_POLL_SECONDS)
        yield
