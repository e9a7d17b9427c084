"""Fetches what a job starts with: artifacts of other jobs, its inputs, and its `data`.

    python3 -m slipway_trainer.inputs '{"name": "model", "job": "train", "artifact": "net.pt", …}'
    python3 -m slipway_trainer.inputs '{"url": "https://…", "sha256": "…", "cache": "/opt/data"}'

A job's pods run it before its program, in a container of the trainer's image, whatever image the
program has. How long it may take is up to the job's `startTimeout`.

Data are fetched once for all pods that share a cache, which has a directory for each content, by
its sha256; it gets that name when all of it is there. A tar or zip archive is unpacked into it, any
other file lies in it by its own name.
"""

import fcntl
import json
import os
import shutil
import socket
import sys
import tarfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Any
from urllib.parse import unquote, urlsplit

from slipway import termination
from slipway_trainer.agent.artifacts import STALL_SECONDS, copy, described, time_limit
from slipway_trainer.training import report


class NotFetchedError(Exception):
    """What a job starts with cannot be had: which, from where, why, and what to do."""


@dataclass(frozen=True)
class Input:
    """An artifact of another job, which this job knows by `name` and finds at `path`."""

    name: str
    job: str
    artifact: str
    """Its path among that job's files."""
    path: str
    url: str
    """Where that job's files were copied to."""
    sha256: str
    """Of it, by that job's result."""
    mounted: tuple[str, str] | None = None
    """Where `url` lies in a volume: the volume's place in that job's pods, and in this."""

    @property
    def source(self) -> str:
        """The URL by which this container reads it."""
        if self.mounted is None:
            return self.url
        there, here = self.mounted
        # No character of a file's name means anything to fsspec, so this is no case for urlsplit.
        return f"file://{here}{normpath(self.url.partition('://')[2]).removeprefix(there)}"

    def __str__(self) -> str:
        return f"input {self.name}: the artifact {self.artifact} of job {self.job}"


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


def fetch_input(wanted: Input, stall_seconds: float = STALL_SECONDS) -> int:
    """Put an input where its job finds it, or raise `NotFetchedError`; return its size in bytes."""
    target = Path(wanted.path)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.part")
    try:
        size, digest = copy(wanted.source, part, stall_seconds)
    except FileNotFoundError as error:
        raise NotFetchedError(
            f"{wanted} is not at {wanted.url} any more. Run {wanted.job} again, which leaves it "
            "anew"
        ) from error
    except Exception as error:
        raise NotFetchedError(
            f"{wanted} could not be fetched from {wanted.url}: {described(error)}. "
            "See that this job, too, has what the store asks for: its `env`, and its Secrets"
        ) from error
    if digest != wanted.sha256:
        part.unlink()
        raise NotFetchedError(
            f"{wanted} is not what it was: {wanted.url} has the sha256 {digest}, and by the result "
            f"of {wanted.job} it had {wanted.sha256}. Somebody wrote over it; run {wanted.job} "
            "again, which leaves it anew"
        )
    part.replace(target)
    return size


def fetch_data(data: Data, turn_seconds: float = 3600.0) -> int:
    """See that the cache has it, or raise `NotFetchedError`; return how many bytes were fetched."""
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
        try:
            with time_limit(limit_seconds, "waiting for another pod"):
                fcntl.flock(lock, fcntl.LOCK_EX)
        except TimeoutError:
            raise NotFetchedError(
                f"{data}: another pod has been fetching it for {limit_seconds:.0f} s. See that "
                "pod's log, and remove it if it hangs"
            ) from None
        yield


def _provide(wanted: dict[str, Any]) -> str:
    """Fetch an input or a job's data; return what was done."""
    begun = time.monotonic()
    known = Input(**wanted) if "name" in wanted else Data(**wanted)
    size = fetch_input(known) if isinstance(known, Input) else fetch_data(known)
    done = f"{size} bytes from {known.url} in {time.monotonic() - begun:.1f} s"
    if size == 0 and isinstance(known, Data):
        done = f"0 bytes fetched, {known.directory} was there"
    return f"{known}: {done}, sha256 {known.sha256}"


def main(arguments: Sequence[str]) -> int:
    """Fetch each of what is given as JSON; return the container's exit code."""
    for argument in arguments:
        try:
            print(_provide(json.loads(argument)))
        except NotFetchedError as error:
            print(error, file=sys.stderr)
            termination.leave({"error": str(error)})
            return report.EXIT_FAILED
    return 0


if __name__ == "__main__":
    # At once: a store that ran out of time may have left threads that still wait for it.
    report.end(main(sys.argv[1:]))
