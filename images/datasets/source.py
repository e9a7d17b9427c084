"""Where a data set's files come from. They are verified afterwards: see `Dataset.problem`."""

import shutil
import tarfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from core.context import Context
from core.paths import cache_dir

CONNECT_LIMIT, READ_LIMIT, LIMIT = 5.0, 30.0, 1200.0
"""Seconds for a download: until a server answers, between two of its bytes, and in total."""
_CHUNK = 1 << 20


class NotAvailable(Exception):
    """A source does not have the data; the text has why."""


def kept() -> Path:
    """Where the verified data sets are kept."""
    return cache_dir() / "datasets"


@dataclass(frozen=True)
class Source:
    """A place to get the whole data set from.

    Args:
        name: As a message names it.
        fetch: Puts every file into the directory that it is given, and shows its progress;
            raises `NotAvailable`, or `InterruptedError`.
        at_hand: Whether it is surely there, on this machine, where the user has put it.
    """

    name: str
    fetch: Callable[[Path, Context], None]
    at_hand: Callable[[], bool] = lambda: False


def download(url: str, target: Path, reporter: Context) -> None:
    """Write what `url` has to `target`.

    Args:
        url: Where it is.
        target: A file; its directory is made.
        reporter: Shows progress.

    Raises:
        NotAvailable: it can't be reached, or takes longer than `LIMIT` seconds.
        InterruptedError: the user stopped the program.
    """
    import requests  # noqa: PLC0415 (whatever knows of data sets would load it)

    target.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    try:
        with (
            requests.get(url, timeout=(CONNECT_LIMIT, READ_LIMIT), stream=True) as response,
            target.open("wb") as file,
        ):
            response.raise_for_status()
            for chunk in response.iter_content(_CHUNK):
                file.write(chunk)
                reporter.status(f"{url}: {file.tell() // 10**7 * 10} MB")
                if reporter.cancelled.is_set():
                    raise InterruptedError(f"{url}: stopped")
                if time.monotonic() - began > LIMIT:
                    raise NotAvailable(f"{url} took longer than {LIMIT:.0f} s")
    except requests.RequestException as error:
        raise NotAvailable(f"{url}: {_root(error)}") from error


def _root(error: BaseException) -> BaseException:
    """Return what `error` comes from at last: "Name or service not known", not a pool's story."""
    while error.__context__ is not None:
        error = error.__context__
    return error


def unpack(packed: Path, directory: Path, members: Mapping[str, str]) -> None:
    """Take files out of a tar archive.

    Args:
        packed: The archive.
        directory: Where to put them.
        members: What each is called in the archive, by its path in `directory`.

    Raises:
        NotAvailable: the archive or a file in it is missing, or it is something else.
    """
    try:
        with tarfile.open(packed) as tar:
            for name, inside in members.items():
                member, target = tar.extractfile(inside), directory / name
                if member is None:
                    raise NotAvailable(f"{packed} has no file {inside}")
                target.parent.mkdir(parents=True, exist_ok=True)
                with member, target.open("wb") as file:
                    shutil.copyfileobj(member, file)
    except FileNotFoundError:
        raise NotAvailable(f"{packed} is missing") from None
    except (OSError, EOFError, KeyError, tarfile.TarError) as error:
        raise NotAvailable(f"{packed} can't be unpacked: {error}") from error
