"""Programs as their projects release them, each proved by the checksum that its publisher serves.

Where a release site answers, that takes seconds where a build takes minutes.
"""

import hashlib
import platform
import re
import shutil
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import requests

from core.paths import cache_dir
from scripts.setup import record
from scripts.setup.modules import COREDNS, KUBERNETES, PULUMI, GoModule
from scripts.setup.record import Entries, Entry
from scripts.setup.steps import Steps
from scripts.setup.tools import Tool

_ANSWER_SECONDS = 5.0
_NO_ANSWER = "no answer"
_SILENCE_SECONDS = 30.0
_LIMIT = 900.0  # seconds; for one file
_CHUNK = 1 << 20
_GO_NAMES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
_CHECKSUM = re.compile(r"(?P<checksum>[0-9a-f]{64})(?:\s+\*?(?P<file>\S+))?")


class Refused(Exception):
    """A release is not used; the text says why."""


@dataclass(frozen=True)
class Release:
    """What a project releases as one file.

    Args:
        module: What it is built from otherwise: the release has the same version.
        tools: Which tools are in it, by the names of files in its archive; none for a program
            as it is.
        address: Of the file, with `{version}` such as v1.34.4, `{number}` without the v,
            `{system}`, `{machine}`, and `{tool}` for what is asked for.
        checksums: Of the publisher's file with SHA-256 checksums, likewise, and with `{address}`.
        machines: What the project calls the processors that it builds for.
    """

    module: GoModule
    tools: Mapping[str, str]
    address: str
    checksums: str = "{address}.sha256"
    machines: Mapping[str, str] = field(default_factory=lambda: _GO_NAMES)


_KUBERNETES = Release(
    # https://kubernetes.io/releases/download/#binaries
    KUBERNETES,
    dict.fromkeys(KUBERNETES.packages, ""),
    "https://dl.k8s.io/release/{version}/bin/{system}/{machine}/{tool}",
)
_PULUMI = Release(
    # https://www.pulumi.com/docs/iac/download-install/versions/
    PULUMI,
    {
        name: f"pulumi/{name}"
        for name in ("pulumi", "pulumi-language-python", "pulumi-language-python-exec")
    },
    "https://get.pulumi.com/releases/sdk/pulumi-{version}-{system}-{machine}.tar.gz",
    "https://get.pulumi.com/releases/sdk/pulumi-{number}-checksums.txt",
    {**_GO_NAMES, "x86_64": "x64"},
)
_COREDNS = Release(
    # https://github.com/coredns/coredns/releases
    COREDNS,
    {"coredns": "coredns"},
    "https://github.com/coredns/coredns/releases/download/{version}/"
    "coredns_{number}_{system}_{machine}.tgz",
)
RELEASES: tuple[Release, ...] = (_KUBERNETES, _PULUMI, _COREDNS)
"""Those whose publisher serves a checksum beside each file."""


def of_plugin(package: str, version: str) -> tuple[str, str]:
    """Return the addresses of a plugin of Pulumi's for this machine, and of its checksums.

    https://github.com/pulumi/pulumi-kubernetes/releases, and likewise for each provider.
    """
    base = f"https://github.com/pulumi/pulumi-{package}/releases/download/v{version}"
    machine = _GO_NAMES.get(platform.machine(), platform.machine())
    archive = f"pulumi-resource-{package}-v{version}-{sys.platform}-{machine}.tar.gz"
    return f"{base}/{archive}", f"{base}/pulumi-{package}_{version}_checksums.txt"


@dataclass(frozen=True)
class Download:
    """A file to fetch, and the tools that come out of it."""

    release: Release
    tools: tuple[Tool, ...]

    @property
    def address(self) -> str:
        """Where the file is."""
        return self._filled(self.release.address)

    @property
    def checksums(self) -> str:
        """Where its publisher's checksum is."""
        return self._filled(self.release.checksums, address=self.address)

    @property
    def host(self) -> str:
        """The site."""
        return str(urlsplit(self.address).hostname)

    @property
    def title(self) -> str:
        """What happens, for the person."""
        names = ", ".join(tool.name for tool in self.tools)
        return f"Downloading {names} {self.release.module.version} from {self.host}"

    def _filled(self, template: str, **more: str) -> str:
        version = self.release.module.version
        return template.format(
            version=version,
            number=version.removeprefix("v"),
            system=sys.platform,
            machine=self.release.machines[platform.machine()],
            tool=self.tools[0].name,
            **more,
        )


def downloads(tools: Sequence[Tool]) -> list[Download]:
    """Return the files that these tools are in, for this machine."""
    found: list[Download] = []
    for release in RELEASES:
        if platform.machine() not in release.machines:
            continue
        held = tuple(tool for tool in tools if tool.name in release.tools)
        # An archive is fetched once for all of its tools; a program is a file of its own.
        groups = [held] if any(release.tools.values()) else [(tool,) for tool in held]
        found += [Download(release, group) for group in groups if group]
    return found


def fetch(wanted: Sequence[Download], steps: Steps) -> Entries:
    """Fetch what can be fetched, side by side; what can't is printed with the reason.

    Sites get 5 s for the checksums, all at once; the files come only from those that answered.
    """
    pool = ThreadPoolExecutor(max_workers=8)
    asked = {pool.submit(published, each.checksums, each.address): each for each in wanted}
    answered, silent = wait(asked, timeout=_ANSWER_SECONDS)
    refused = [(asked[each], _NO_ANSWER) for each in silent]
    files: dict[Future[Entries], Download] = {}
    for question in answered:
        try:
            files[pool.submit(_fetch, asked[question], question.result(), steps)] = asked[question]
        except Refused as why:
            refused.append((asked[question], str(why)))
    entries: Entries = {}
    for file, download in files.items():
        try:
            entries |= file.result()
        except Refused as why:
            refused.append((download, str(why)))
    pool.shutdown(wait=False)  # a site that is silent still may hold a thread
    for reason in dict.fromkeys(reason for _, reason in refused):
        hosts = dict.fromkeys(download.host for download, other in refused if other == reason)
        text = f"No release from {', '.join(hosts)}: {reason}. It is built instead."
        steps.console.print(text, markup=False)
    return entries


def published(checksums: str, address: str) -> str:
    """Return the SHA-256 that the publisher serves for a file.

    Args:
        checksums: The address of the publisher's checksums.
        address: Of the file.

    Raises:
        Refused: there is none within 5 s, or another than when the file was first used.
    """
    with _answer(checksums, _ANSWER_SECONDS) as answer:
        text = answer.text
    name = address.rpartition("/")[2]
    for line in text.splitlines():
        found = _CHECKSUM.fullmatch(line.strip())
        if found is not None and found["file"] in {None, name}:
            return _as_before(address, found["checksum"])
    raise Refused(f"{checksums} has no SHA-256 checksum of {name}")


def _as_before(address: str, checksum: str) -> str:
    before = record.checksums().get(address, checksum)
    if checksum != before:
        raise Refused(
            f"the checksum of {address} was {before} when it was first used, and is {checksum} now"
        )
    return checksum


def _fetch(download: Download, checksum: str, steps: Steps) -> Entries:
    """Download a file, and put the tools in it into their place once it has been checked."""
    bin_dir, work = cache_dir() / "bin", cache_dir() / "build"
    for directory in (bin_dir, work):
        directory.mkdir(parents=True, exist_ok=True)
    with (
        steps.shown(download.title, "20 s"),
        tempfile.TemporaryDirectory(dir=work, prefix="release-") as fresh,
    ):
        file = Path(fresh) / "file"
        save(download.address, checksum, file, steps)
        made = {}
        for tool in download.tools:
            path = _program(file, download.release.tools[tool.name], Path(fresh) / tool.name)
            path.chmod(0o755)
            path = path.replace(bin_dir / tool.name)
            origin = f"{record.RELEASE}{download.host}"
            made[tool.name] = Entry.of(path, download.release.module.version, origin, tool.stamp)
    record.trust(download.address, checksum)
    return made


def save(address: str, checksum: str, file: Path, steps: Steps) -> None:
    """Write what an address serves to a file.

    Args:
        address: Of what a publisher has released.
        checksum: The SHA-256 that it must have.
        file: Where it goes.
        steps: Their end ends this, too.

    Raises:
        Refused: it did not come whole, or has another checksum.
    """
    digest, started = hashlib.sha256(), time.monotonic()
    with _answer(address, _SILENCE_SECONDS) as answer, file.open("wb") as opened:
        for chunk in answer.iter_content(_CHUNK):
            digest.update(chunk)
            opened.write(chunk)
            if steps.ended or time.monotonic() - started > _LIMIT:
                raise Refused(f"{address} was not complete within {_LIMIT:.0f} s")
    if (found := digest.hexdigest()) != checksum:
        raise Refused(f"{address} has the checksum {found}, and its publisher's is {checksum}")


def _program(file: Path, member: str, target: Path) -> Path:
    """Return the file itself, or where a member of the archive has been written."""
    if not member:
        return file
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
