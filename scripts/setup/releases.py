"""Download releases of the tools and verify them against the publishers' checksums."""

import platform
import re
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import requests

from core.context import Silence
from core.paths import cache_dir
from images.datasets.dataset import NotAvailable, digest, download, unpack
from scripts.setup import record
from scripts.setup.record import Entries, Entry
from scripts.setup.steps import Steps
from scripts.setup.tools import MACHINES, Tool

_ANSWER_SECONDS = 5.0
_CHECKSUM = re.compile(r"(?P<checksum>[0-9a-f]{64})(?:\s+\*?(?P<file>\S+))?")


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
        except NotAvailable as why:
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
        if module and (release := module.release) and platform.machine() in MACHINES:
            addresses = release.addresses(module.version, tool.name)
            result.setdefault(File(*addresses, module.version, release.member), []).append(tool)
    return result


def published(address: str, checksums: str) -> str:
    """Return the SHA-256 checksum that the publisher lists for the file at the URL `address`.

    Raises `NotAvailable` if the URL `checksums` does not return one within 5 s, or if the checksum
    has changed since it was first used.
    """
    try:
        answer = requests.get(checksums, timeout=_ANSWER_SECONDS)
        answer.raise_for_status()
    except requests.RequestException as error:
        silent = isinstance(error, requests.Timeout | requests.ConnectionError)
        is_known = isinstance(error, requests.exceptions.SSLError) or not silent
        raise NotAvailable(f"{checksums}: {error}" if is_known else "no response") from error
    name = address.rpartition("/")[2]
    lines = (_CHECKSUM.fullmatch(line.strip()) for line in answer.text.splitlines())
    match = next((each for each in lines if each and each["file"] in {None, name}), None)
    if match is None:
        raise NotAvailable(f"{checksums} does not contain a SHA-256 checksum for {name}")
    now = match["checksum"]
    if (before := record.checksums().get(address, now)) != now:
        was = f"the checksum of {address} was {before} when it was first used"
        raise NotAvailable(f"{was}, but is now {now}")
    return now


def _fetch(file: File, tools: Sequence[Tool], steps: Steps) -> Entries:
    """Download and verify a file, then install the tools that it contains."""
    checksum = published(file.address, file.checksums)
    names, bin_dir = ", ".join(tool.name for tool in tools), cache_dir() / "bin"
    bin_dir.mkdir(parents=True, exist_ok=True)
    with (
        steps.shown(f"Downloading {names} {file.version} from {file.host}", "20 s"),
        tempfile.TemporaryDirectory(dir=cache_dir(), prefix="release-") as fresh,
    ):
        packed = Path(fresh, file.address.rpartition("/")[2])
        download(file.address, packed, Silence(cancelled=steps.ended))
        if (actual := digest(packed, "sha256")) != checksum:
            is_not = f"has the checksum {actual}, but its publisher lists {checksum}"
            raise NotAvailable(f"{file.address} {is_not}")
        entries, origin = {}, f"{record.RELEASE}{file.host}"
        for tool in tools:
            path = packed if file.member is None else Path(fresh, tool.name)
            if file.member is not None:
                unpack(packed, path.parent, {path.name: file.member.format(tool=tool.name)})
            path.chmod(0o755)
            path = path.replace(bin_dir / tool.name)
            entries[tool.name] = Entry.from_file(path, file.version, origin, tool.stamp)
    record.trust(file.address, checksum)
    return entries
