"""Fetches what a job starts with: artifacts of other jobs, its inputs, and its `data`.

    python3 -m slipway_trainer.inputs '{"name": "model", "job": "train", "artifact": "net.pt", …}'
    python3 -m slipway_trainer.inputs '{"url": "https://…", "sha256": "…", "cache": "/opt/data"}'

A job's pods run it before its program, in a container of the trainer's image, whatever image the
program has; so it imports no torch. Repeating what fails for a moment is left to the store's own
client. How long all of it may take is up to the job's `startTimeout`.
"""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from posixpath import normpath
from typing import Any

from slipway import termination
from slipway_trainer.agent import data
from slipway_trainer.agent.artifacts import described
from slipway_trainer.agent.data import STALL_SECONDS, Data, NotFetchedError, copy
from slipway_trainer.training import report


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


def fetch(wanted: Input, stall_seconds: float = STALL_SECONDS) -> int:
    """Put an input where its job finds it, whole or not at all, and return its size in bytes.

    Raises:
        NotFetchedError: it is not there, it is another file by now, or the store does not give it.
    """
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


def _provide(wanted: Mapping[str, Any]) -> str:
    """Fetch an input or a job's data; return what was done."""
    begun = time.monotonic()
    url, digest = wanted["url"], wanted["sha256"]
    if "name" in wanted:
        artifact = Input(**wanted)
        what, size = str(artifact), fetch(artifact)
    else:
        known = Data(**wanted)
        what, size = f"{known} in {known.directory}", data.fetch(known)
        if size == 0:
            return f"{what}: 0 bytes fetched, it was there, sha256 {digest}"
    seconds = time.monotonic() - begun
    return f"{what}: {size} bytes from {url} in {seconds:.1f} s, sha256 {digest}"


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
