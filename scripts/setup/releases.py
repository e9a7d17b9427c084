"""Download releases of the tools and verify them against the publishers' checksums."""

import hashlib
import platform
import re
import shutil
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import requests

from core.paths import cache_dir
from scripts.setup import record
from scripts.setup.record import Entries, Entry
from scripts.setup.steps import Steps
from scripts.setup.tools import MACHINES, Tool

_ANSWER_SECONDS = 5.0
_SILENCE_SECONDS = 30.0
_LIMIT = 900.0  # seconds; for one file
_CHECKSUM = re.compile(r"(?P<checksum>[0-9a-f]{64})(?:\s+\*?(?P<file>\S+))?")


class Refused(Exception):
    """A release can't be used; the message gives the reason."""


class File(NamedTuple):
    """A release's file: an archive with a tool at `member` or, if it is None, the tool itself."""

    address: str
    checksums: str
    version: str
    member: str | None

    @property
    def host(self) -> str:
        return str(urlsplit(self.address).hostname)


def fetch(tools: Sequence[Tool], steps: Steps) -> Entries:
    """Download tools in parallel, and print the reason for each that can't be downloaded."""
    pool = ThreadPoolExecutor(max_workers=8)
    files = files_of(tools)
    fetched = {file: pool.submit(_fetch, file, held, steps) for file, held in files.items()}
    pool.shutdown(wait=False)
    entries: Entries = {}
    refused: dict[str, dict[str, None]] = {}
    for file, future in fetched.items():
        try:
            entries |= future.result()
        except Refused as why:
            built = "" if files[file][0].module is None else " Building from source instead."
            refused.setdefault(f"{why}.{built}", {})[file.host] = None
    for reason, sites in refused.items():
        steps.console.print(f"No release from {', '.join(sites)}: {reason}", markup=False)
    return entries


def files_of(tools: Sequence[Tool]) -> dict[File, list[Tool]]:
    """Return the release files for this machine, each with the tools that it contains."""
    result: dict[File, list[Tool]] = {}
    for tool in tools:
        module = tool.released_with or tool.module
        release = None if module is None else module.release
        if module is not None and release is not None and platform.machine() in MACHINES:
            addresses = release.addresses(module.version, tool.name)
            result.setdefault(File(*addresses, module.version, release.member), []).append(tool)
    return result


def published(address: str, checksums: str) -> str:
    """Return the SHA-256 checksum that the publisher lists for the file at the URL `address`.

    Raises `Refused` if the URL `checksums` does not return one within 5 s, or if the checksum has
    changed since it was first used.
    """
    with _answer(checksums, _ANSWER_SECONDS) as answer:
        text = answer.text
    name = address.rpartition("/")[2]
    lines = (_CHECKSUM.fullmatch(line.strip()) for line in text.splitlines())
    match = next((each for each in lines if each and each["file"] in {None, name}), None)
    if match is None:
        raise Refused(f"{checksums} does not contain a SHA-256 checksum for {name}")
    now = match["checksum"]
    if (before := record.checksums().get(address, now)) != now:
        was = f"the checksum of {address} was {before} when it was first used"
        raise Refused(f"{was}, but is now {now}")
    return now


def save(address: str, checksum: str, file: Path, steps: Steps) -> None:
    """Download a URL to a file, or raise `Refused` if that fails or the SHA-256 does not match."""
    digest, started = hashlib.sha256(), time.monotonic()
    with _answer(address, _SILENCE_SECONDS) as answer, file.open("wb") as opened:
        for chunk in answer.iter_content(1 << 20):
            digest.update(chunk)
            opened.write(chunk)
            if steps.ended.is_set() or time.monotonic() - started > _LIMIT:
                raise Refused(f"{address} was not downloaded within {_LIMIT:.0f} s")
    if (actual := digest.hexdigest()) != checksum:
        raise Refused(f"{address} has the checksum {actual}, but its publisher lists {checksum}")


def _fetch(file: File, tools: Sequence[Tool], steps: Steps) -> Entries:
    """Download and verify a file, then install the tools that it contains."""
    checksum = published(file.address, file.checksums)
    names, bin_dir = ", ".join(tool.name for tool in tools), cache_dir() / "bin"
    bin_dir.mkdir(parents=True, exist_ok=True)
    with (
        steps.shown(f"Downloading {names} {file.version} from {file.host}", "20 s"),
        tempfile.TemporaryDirectory(dir=cache_dir(), prefix="release-") as fresh,
    ):
        packed = Path(fresh, "file")
        save(file.address, checksum, packed, steps)
        entries, origin = {}, f"{record.RELEASE}{file.host}"
        for tool in tools:
            path = packed if file.member is None else Path(fresh, tool.name)
            if file.member is not None:
                _unpack(packed, file.member.format(tool=tool.name), path)
            path.chmod(0o755)
            path = path.replace(bin_dir / tool.name)
            entries[tool.name] = Entry.from_file(path, file.version, origin, tool.stamp)
    record.trust(file.address, checksum)
    return entries


def _unpack(file: Path, member: str, target: Path) -> None:
    try:
        with tarfile.open(file) as archive, target.open("wb") as opened:
            content = archive.extractfile(member)
            if content is None:
                raise Refused(f"{member} is not a file in the archive")
            shutil.copyfileobj(content, opened)
    except (KeyError, tarfile.TarError, OSError) as error:
        raise Refused(f"{member} can't be unpacked: {error}") from error


@contextmanager
def _answer(address: str, seconds: float) -> Iterator[requests.Response]:
    """Yield the response from a URL before its body is read, or raise `Refused`."""
    try:
        with requests.get(address, stream=True, timeout=seconds) as answer:
            answer.raise_for_status()
            yield answer
    except requests.RequestException as error:
        silent = isinstance(error, requests.Timeout | requests.ConnectionError)
        if silent and not isinstance(error, requests.exceptions.SSLError):
            raise Refused("no response") from error
        raise Refused(f"{address}: {error}") from error
