"""Fetch a job's inputs (artifacts from other jobs) and its `data`.

    python3 -m slipway_trainer.inputs '{"name": "model", "job": "train", "artifact": "net.pt", …}'
    python3 -m slipway_trainer.inputs '{"url": "https://…", "sha256": "…", "cache": "/opt/data"}'

A job's pods run this before the program, in an init container that uses the trainer image even if
the program uses another. The job's `startTimeout` limits how long it may take.

Data is fetched once for all pods that share a cache. The cache has one directory per data set,
which is renamed to the data's sha256 once it is complete. A tar or zip archive is unpacked into it;
any other file keeps its own name, including .npz, .pt and others in zip's format.
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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from posixpath import normpath
from urllib.parse import unquote, urlsplit

from slipway import termination
from slipway_trainer.agent.artifacts import STALL_SECONDS, copy, described
from slipway_trainer.training import report


class NotFetchedError(Exception):
    """An input or the data can't be fetched; the message gives the URL, reason and remedy."""


@dataclass(frozen=True)
class Input:
    """An artifact from another job; `name` and `path` are its name and path in this job."""

    name: str
    job: str
    artifact: str
    """The artifact's path in that job's outputs."""
    path: str
    url: str
    """The URL of the artifact."""
    sha256: str
    """The artifact's sha256 as listed in that job's result."""
    mounted: tuple[str, str] | None = None
    """If `url` is in a volume, the volume's path in that job's pods and in this pod."""

    @property
    def source(self) -> str:
        """The artifact's URL as seen from this container."""
        if self.mounted is None:
            return self.url
        there, here = self.mounted
        # Not urlsplit, since fsspec reads every character in a file's name literally.
        return f"file://{here}{normpath(self.url.partition('://')[2]).removeprefix(there)}"

    def __str__(self) -> str:
        return f"input {self.name}: artifact {self.artifact} from job {self.job}"


@dataclass(frozen=True)
class Data:
    """A job's data, which is a file or an archive, and the directory to cache it in."""

    url: str
    sha256: str
    cache: str

    @property
    def directory(self) -> Path:
        """The directory in which the job finds the data."""
        return Path(self.cache, self.sha256)

    def __str__(self) -> str:
        return f"data {self.url}"


def fetch_input(source: Input, stall_seconds: float = STALL_SECONDS) -> int:
    """Fetch an input to its path, and return its size in bytes; raises `NotFetchedError`."""
    target = Path(source.path)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.part")
    try:
        size, digest = copy(source.source, part, stall_seconds)
    except FileNotFoundError as error:
        raise NotFetchedError(
            f"{source} is no longer at {source.url}. Run {source.job} again to recreate it"
        ) from error
    except Exception as error:
        raise NotFetchedError(
            f"{source} could not be fetched from {source.url}: {described(error)}. "
            "Check that this job also has the store's credentials, in its `env` or its Secrets"
        ) from error
    if digest != source.sha256:
        part.unlink()
        raise NotFetchedError(
            f"{source} was changed: {source.url} has sha256 {digest}, but the result of "
            f"{source.job} lists {source.sha256}. Another program overwrote it; run {source.job} "
            "again to recreate it"
        )
    part.replace(target)
    return size


def fetch_data(data: Data) -> int:
    """Fetch data unless it is cached; return the bytes fetched. Raises `NotFetchedError`."""
    cache = Path(data.cache)
    cache.mkdir(parents=True, exist_ok=True)
    # Named after the pod: if locks work only within a node, other pods may fetch the same data.
    own = f".{data.sha256}.{socket.gethostname()}"
    packed, part = cache / f"{own}.packed", cache / f"{own}.part"
    with (cache / f".{data.sha256}.lock").open("w") as lock:
        # While another pod fetches them, for any time: the job's `startTimeout` is the limit.
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            if data.directory.is_dir():
                return 0
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir()
            size, digest = copy(data.url, packed)
            if digest != data.sha256:
                raise NotFetchedError(  # noqa: TRY301 - raised again unchanged
                    f"{data} has sha256 {digest}, but the job's `data.sha256` is "
                    f"{data.sha256}: correct whichever is wrong"
                )
            name = PurePosixPath(unquote(urlsplit(data.url).path)).name
            unpack(packed, part, name if name.strip(".") else "data")
            os.sync()
            try:
                part.rename(data.directory)
            except OSError:
                if not data.directory.is_dir():  # if it exists, another node was faster
                    raise
        except NotFetchedError:
            raise
        except Exception as error:
            raise NotFetchedError(
                f"{data} could not be fetched: {described(error)}. Check that the URL "
                "is correct, that this job has the store's credentials (in its `env` or Secrets), "
                "and that the cache has enough space for both the archive and its contents"
            ) from error
        finally:
            # Also what this pod left when it was killed, and another then fetched the data.
            packed.unlink(missing_ok=True)
            shutil.rmtree(part, ignore_errors=True)
    return size


def unpack(packed: Path, directory: Path, name: str) -> None:
    """Unpack a tar or zip archive into `directory`; put any other file there as `name`."""
    suffix = PurePosixPath(name).suffix.lower().strip(".0123456789")  # none in `v1.0`
    try:
        if tarfile.is_tarfile(packed):
            with tarfile.open(packed) as tar:
                # No absolute paths, no links that point outside, no devices: PEP 706.
                tar.extractall(directory, filter="data")
        elif suffix in {"", "zip"} and zipfile.is_zipfile(packed):
            with zipfile.ZipFile(packed) as archive:
                for each in archive.namelist():
                    path = PurePosixPath(each)
                    if path.is_absolute() or ".." in path.parts:
                        raise NotFetchedError(f"the zip archive has a path outside it: {each}")
                archive.extractall(directory)  # noqa: S202 - its names are checked above
        if not any(directory.iterdir()):  # tarfile reads a file of zeros as an empty archive
            packed.rename(directory / name)
    except (tarfile.TarError, zipfile.BadZipFile) as error:
        raise NotFetchedError(f"the archive can't be unpacked: {error}") from error


def main(arguments: Sequence[str]) -> int:
    """Fetch every input and all data in `arguments` (JSON); return the container's exit code."""
    try:
        for argument in arguments:
            declared, begun = json.loads(argument), time.monotonic()
            source = Input(**declared) if "name" in declared else Data(**declared)
            size = fetch_input(source) if isinstance(source, Input) else fetch_data(source)
            done = f"{size} bytes from {source.url} in {time.monotonic() - begun:.1f} s"
            if size == 0 and isinstance(source, Data):
                done = f"0 bytes fetched, {source.directory} exists"
            print(f"{source}: {done}, sha256 {source.sha256}")
    except NotFetchedError as error:
        print(error, file=sys.stderr)
        termination.leave({"error": str(error)})
        return report.EXIT_FAILED
    return 0


if __name__ == "__main__":
    # Exit immediately, since a storage client's threads may still be waiting after a timeout.
    report.end(main(sys.argv[1:]))
