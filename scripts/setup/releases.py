"""Programs as their projects release them, each proved by the checksum that its publisher serves.

Where a release site answers, that takes seconds where a build takes minutes.
"""

import hashlib
import platform
import re
import shutil
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import requests

from core.paths import cache_dir
from scripts.setup import record
from scripts.setup.record import Entries, Entry
from scripts.setup.steps import Steps
from scripts.setup.tool_types import GoModule, Release, Tool
from scripts.setup.tools import COREDNS, KUBERNETES, PULUMI

RELEASED: tuple[GoModule, ...] = (KUBERNETES, PULUMI, COREDNS)
"""Those whose publisher serves a checksum beside each file."""
_ANSWER_SECONDS = 5.0
_NO_ANSWER = "no answer"
_SILENCE_SECONDS = 30.0
_LIMIT = 900.0  # seconds; for one file
_CHUNK = 1 << 20
_CHECKSUM = re.compile(r"(?P<checksum>[0-9a-f]{64})(?:\s+\*?(?P<file>\S+))?")


class Refused(Exception):
    """A release is not used; the text has why."""


def fetch(tools: Sequence[Tool], steps: Steps) -> Entries:
    """Fetch what can be fetched, side by side; what can't is printed with the reason.

    Sites get 5 s for the checksums, in parallel; files come only from those that answered.
    """
    pool = ThreadPoolExecutor(max_workers=8)
    questions = {pool.submit(published, *file.addresses): file for file in files_of(tools)}
    answered, silent = wait(questions, timeout=_ANSWER_SECONDS)
    refused = [(questions[each].host, _NO_ANSWER) for each in silent]
    fetched = {pool.submit(_fetch, questions[each], each, steps): each for each in answered}
    entries: Entries = {}
    for future, question in fetched.items():
        try:
            entries |= future.result()
        except Refused as why:
            refused.append((questions[question].host, str(why)))
    pool.shutdown(wait=False)  # a site that is silent still may hold a thread
    for reason in dict.fromkeys(reason for _, reason in refused):
        hosts = dict.fromkeys(host for host, other in refused if other == reason)
        text = f"No release from {', '.join(hosts)}: {reason}. It is built instead."
        steps.console.print(text, markup=False)
    return entries


@dataclass(frozen=True)
class File:
    """A file of a release, and the tools that come out of it."""

    module: GoModule
    release: Release
    tools: tuple[Tool, ...]

    @property
    def addresses(self) -> tuple[str, str]:
        """Where it is, and its publisher's checksums."""
        return self.release.addresses(self.module.version, self.tools[0].name)

    @property
    def host(self) -> str:
        """The site."""
        return str(urlsplit(self.addresses[0]).hostname)


def files_of(tools: Sequence[Tool]) -> list[File]:
    """Return the files that these tools are in, for this machine."""
    found: list[File] = []
    for module in RELEASED:
        release = module.release
        if release is None or platform.machine() not in release.machines:
            continue
        names = release.members or module.packages
        held = tuple(tool for tool in tools if tool.name in names)
        # An archive is fetched once for all of its tools; a program is a file of its own.
        groups = [held] if release.members else [(tool,) for tool in held]
        found += [File(module, release, group) for group in groups if group]
    return found


def published(address: str, checksums: str) -> str:
    """Return the SHA-256 that the publisher serves for a file.

    Args:
        address: Of the file.
        checksums: Of the publisher's checksums.

    Raises:
        Refused: none arrives within 5 s, or it differs from when the file was first used.
    """
    with _answer(checksums, _ANSWER_SECONDS) as answer:
        text = answer.text
    name = address.rpartition("/")[2]
    for line in text.splitlines():
        found = _CHECKSUM.fullmatch(line.strip())
        if found is None or found["file"] not in {None, name}:
            continue
        before = record.checksums().get(address, found["checksum"])
        if found["checksum"] != before:
            raise Refused(
                f"the checksum of {address} was {before} when it was first used, and is "
                f"{found['checksum']} now"
            )
        return before
    raise Refused(f"{checksums} has no SHA-256 checksum of {name}")


def save(address: str, checksum: str, file: Path, steps: Steps) -> None:
    """Write what an address serves to a file.

    Args:
        address: Of what a publisher has released.
        checksum: The SHA-256 that it must have.
        file: Where it goes.
        steps: Their end ends this, too.

    Raises:
        Refused: it is incomplete, or has another checksum.
    """
    digest, started = hashlib.sha256(), time.monotonic()
    with _answer(address, _SILENCE_SECONDS) as answer, file.open("wb") as opened:
        for chunk in answer.iter_content(_CHUNK):
            digest.update(chunk)
            opened.write(chunk)
            if steps.ended.is_set() or time.monotonic() - started > _LIMIT:
                raise Refused(f"{address} was not complete within {_LIMIT:.0f} s")
    if (found := digest.hexdigest()) != checksum:
        raise Refused(f"{address} has the checksum {found}, and its publisher's is {checksum}")


def _fetch(file: File, checksum: "Future[str]", steps: Steps) -> Entries:
    """Download a file, and put the tools in it into their place once it has been checked."""
    bin_dir, work = cache_dir() / "bin", cache_dir() / "build"
    for directory in (bin_dir, work):
        directory.mkdir(parents=True, exist_ok=True)
    sha256, version = checksum.result(), file.module.version
    names = ", ".join(tool.name for tool in file.tools)
    with (
        steps.shown(f"Downloading {names} {version} from {file.host}", "20 s"),
        tempfile.TemporaryDirectory(dir=work, prefix="release-") as fresh,
    ):
        packed = Path(fresh) / "file"
        save(file.addresses[0], sha256, packed, steps)
        made = {}
        for tool in file.tools:
            member = file.release.members.get(tool.name)
            path = packed if member is None else _member(packed, member, Path(fresh) / tool.name)
            path.chmod(0o755)
            path = path.replace(bin_dir / tool.name)
            origin = f"{record.RELEASE}{file.host}"
            made[tool.name] = Entry.of(path, version, origin, tool.stamp)
    record.trust(file.addresses[0], sha256)
    return made


def _member(file: Path, member: str, target: Path) -> Path:
    """Write a member of the archive to `target`, and return that."""
    try:
        with tarfile.open(file) as archive:
            content = archive.extractfile(member)
            if content is None:
                raise Refused(f"{member} is no file in the archive")
            with content, target.open("wb") as opened:
                shutil.copyfileobj(content, opened)
    except (KeyError, tarfile.TarError, OSError) as error:
        raise Refused(f"{member} can't be unpacked: {error}") from error
    return target


@contextmanager
def _answer(address: str, seconds: float) -> Iterator[requests.Response]:
    """Yield a site's answer, whose body is still to be read."""
    try:
        with requests.get(address, stream=True, timeout=seconds) as answer:
            answer.raise_for_status()
            yield answer
    except requests.RequestException as error:
        silent = isinstance(error, requests.Timeout | requests.ConnectionError)
        if silent and not isinstance(error, requests.exceptions.SSLError):
            raise Refused(_NO_ANSWER) from error
        raise Refused(f"{address}: {error}") from error
