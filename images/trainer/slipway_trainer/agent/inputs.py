"""Fetches the artifacts of other jobs that a job takes as input, and proves what they are.

    python3 -m slipway_trainer.inputs '{"name": "model", "job": "train", "artifact": "net.pt", …}'

A job's pods run it before its program, in a container of the trainer's image, whatever image the
program has; so it imports no torch. Repeating what fails for a moment is left to the store's own
client. How long all of it may take is up to the job's `startTimeout`.
"""

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from posixpath import normpath
from typing import TYPE_CHECKING

from slipway_trainer import report
from slipway_trainer.agent.artifacts import time_limit

if TYPE_CHECKING:
    from fsspec.spec import AbstractBufferedFile

_STALL_SECONDS = 60
_CHUNK_BYTES = 8 * 2**20


class NotFetchedError(Exception):
    """An input that cannot be had: which, from where, why, and what to do."""


@dataclass(frozen=True)
class Input:
    """An artifact of another job.

    Args:
        name: By which this job knows it.
        job: Which other job left it.
        artifact: Its path among that job's files.
        path: Where this job finds it.
        url: Where that job's files were copied to.
        sha256: Of it, by that job's result.
        mounted: Where `url` lies in a volume: the volume's place in that job's pods, and in this.
    """

    name: str
    job: str
    artifact: str
    path: str
    url: str
    sha256: str
    mounted: tuple[str, str] | None = None

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


def fetch(wanted: Input, stall_seconds: float = _STALL_SECONDS) -> int:
    """Put an input where its job finds it, whole or not at all, and return its size in bytes.

    Raises:
        NotFetchedError: it is not there, it is another file by now, or the store does not give it.
    """
    target = Path(wanted.path)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.part")
    try:
        size, digest = _copy(wanted, part, stall_seconds)
    except FileNotFoundError as error:
        raise NotFetchedError(
            f"{wanted} is not at {wanted.url} any more. Run {wanted.job} again, which leaves it "
            "anew"
        ) from error
    except Exception as error:
        raise NotFetchedError(
            f"{wanted} could not be fetched from {wanted.url}: {type(error).__name__}: {error}. "
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


def _copy(wanted: Input, part: Path, stall_seconds: float) -> tuple[int, str]:
    """Copy an input to `part` and return its size and sha256."""
    from fsspec import url_to_fs  # noqa: PLC0415 - what it raises is to be told like the rest

    digest, size = sha256(), 0
    with time_limit(stall_seconds, "opening it"):
        store, path = url_to_fs(wanted.source)
        source: AbstractBufferedFile = store.open(path, "rb")
    with source, part.open("wb") as copy:
        while chunk := _read(source, stall_seconds):
            copy.write(chunk)
            digest.update(chunk)
            size += len(chunk)
    return size, digest.hexdigest()


def _read(source: "AbstractBufferedFile", stall_seconds: float) -> bytes:
    with time_limit(stall_seconds, f"reading {_CHUNK_BYTES // 2**20} MiB of it"):
        chunk: bytes = source.read(_CHUNK_BYTES)
    return chunk


def main(arguments: Sequence[str]) -> int:
    """Fetch each of the inputs, told as JSON; return the container's exit code."""
    for argument in arguments:
        wanted = Input(**json.loads(argument))
        begun = time.monotonic()
        try:
            size = fetch(wanted)
        except NotFetchedError as error:
            print(error, file=sys.stderr)
            report.leave({"error": str(error)})
            return report.EXIT_FAILED
        seconds = time.monotonic() - begun
        print(
            f"{wanted}: {size} bytes from {wanted.url} in {seconds:.1f} s, sha256 {wanted.sha256}"
        )
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # At once: a store that ran out of time may have left threads that still wait for it.
    os._exit(code)
