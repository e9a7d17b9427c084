"""Debian from this machine's package sources: the base image, or a single unpacked package.

The base image is pulled if its registry is reachable, otherwise built from Debian packages.
"""

import os
import platform
import shlex
import shutil
import tempfile
from functools import cache, partial
from pathlib import Path

from core.problem import raised
from core.process import CommandFailed, run
from core.toolchain import ToolMissing
from images.build.engines import Engine, Plan, answer
from images.build.releases import SNAPSHOTS
from images.build.runner import BuildFailed, Runner

_FRESHNESS = ("Acquire::Check-Valid-Until", "Acquire::Check-Date")
"""apt settings for a mirror whose package lists are out of date."""
# Debian's own slim images leave these out, too.
_LEFT_OUT = ("man", "info", "locale", "lintian", "doc")


def base_image(engine: Engine, runner: Runner, work: Path, suite: str) -> str:
    """Pull or build a suite's Debian base image, and return its reference in `engine`.

    Raises `BuildFailed` or `ToolMissing`.
    """
    # The base for the Dockerfiles.
    published, own = f"docker.io/library/debian:{suite}-slim", f"localhost/slipway-base:{suite}"
    try:
        runner.run(f"pulling {published}", engine.pull(published), 180.0)
    except BuildFailed:
        # The reason is in the log: usually an unreachable registry, which is not a problem here.
        for each in (published, own):
            if answer(*engine.digest(each)):
                return each
    else:
        runner.reporter.info(f"base image {published}, pulled: {answer(*engine.digest(published))}")
        return published
    mirrors, context = sources(suite), work / "base"
    origin = " and ".join(mirrors) or "Debian's own mirror"
    runner.reporter.info(
        f"base image {published} can't be pulled; building it from Debian packages: {origin}"
    )
    if (program := shutil.which("mmdebstrap")) is None:
        why = f"{published} can't be pulled (see {runner.log})"
        raise ToolMissing(f"{why}. Make its registry reachable, or install mmdebstrap")
    context.mkdir()
    (context / "Dockerfile").write_text('FROM scratch\nADD base.tar /\nCMD ["bash"]\n')
    command = bootstrap(Path(program), context / "base.tar", mirrors, suite)
    runner.run("building the base image", command)
    runner.run("importing the base image", engine.build(Plan(context, context / "Dockerfile"), own))
    shutil.rmtree(context)
    return own


@cache
def snapshot(suite: str) -> str | None:
    """Return the apt source line for a suite's pinned snapshot.

    None if the suite is not pinned, or the snapshot can't be reached.
    """
    if (day := SNAPSHOTS.get(suite)) is None:
        return None
    import requests  # noqa: PLC0415 (Pulumi's program, which builds nothing, would load it)

    url = f"http://snapshot.debian.org/archive/debian/{day}"
    by = {name.removesuffix("_proxy"): each for name, each in proxies().items()}
    try:
        response = requests.head(f"{url}/dists/{suite}/InRelease", timeout=10.0, proxies=by)
    except requests.RequestException:
        return None
    # A timestamp between two snapshots redirects to the earlier one.
    return f"deb [check-valid-until=no] {url} {suite} main" if response.ok else None


def sources(suite: str) -> list[str]:
    """Return a suite's apt source lines: its `snapshot`, or this machine's if it runs Debian."""
    if (pinned := snapshot(suite)) is not None:
        return [pinned]
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return []
    codename = release.get("VERSION_CODENAME")
    targets = answer(
        "apt-get", "indextargets", "--no-release-info",
        "--format", "$(REPO_URI)|$(RELEASE)|$(COMPONENT)", "Created-By: Packages",
    )  # fmt: skip
    if release["ID"] != "debian" or codename is None or targets is None:
        return []
    lines = {
        f"deb {uri} {suite}{name.removeprefix(codename)} main": None
        for uri, name, component in (line.split("|") for line in targets.split())
        if component == "main" and name in {codename, f"{codename}-updates", f"{codename}-security"}
    }
    return list(lines)


def proxies() -> dict[str, str]:
    """Return proxy variables for a build, from the environment or apt, in lower and upper case."""
    names = ("http_proxy", "https_proxy", "no_proxy")
    values = {name: os.environ.get(name, os.environ.get(name.upper(), "")) for name in names}
    for scheme in ("http", "https"):
        name = f"{scheme}_proxy"
        values[name] = values[name] or _apt(f"Acquire::{scheme}::Proxy")
    active = {name: value for name, value in values.items() if value and value != "DIRECT"}
    return active | {name.upper(): value for name, value in active.items()}


def bootstrap(mmdebstrap: Path, archive: Path, mirrors: list[str], suite: str) -> tuple[str, ...]:
    """Return the command that writes a minimal Debian to the tar file `archive`.

    `mirrors` are apt source lines; if there are none, Debian's own mirror is used.
    """
    options = [
        "--variant=minbase",
        "--mode=root",
        "--format=tar",
        *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in _LEFT_OUT),
        "--dpkgopt=path-include=/usr/share/doc/*/copyright",
        '--aptopt=Acquire::Languages "none"',
        *(f'--aptopt={name} "{value}"' for name in _FRESHNESS if (value := _apt(name))),
    ]
    return (str(mmdebstrap), *options, suite, str(archive), *mirrors)


def unpack(package: str, directory: Path) -> None:
    """Download a package with apt and unpack it into `directory`; raises `CommandFailed`."""
    directory.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=".apt-") as name:
        private = Path(name)
        (private / "lists" / "partial").mkdir(parents=True)
        # As root, apt would switch to a user without write access here, and warn about it.
        apt = ("apt-get", "--quiet", "--option=APT::Sandbox::User=root")
        ours = (*apt, f"--option=Dir::State::Lists={private}/lists")
        call = partial(run, cwd=private, limit=300.0)
        if raised(partial(call, *apt, "download", package), CommandFailed) is not None:
            call(*ours, "update")
            call(*ours, "download", package)
        call("dpkg-deb", "--extract", str(next(private.glob("*.deb"))), str(directory))


def _apt(name: str) -> str:
    """Return the value of the apt setting `name`, or an empty string if it is unset."""
    printed = answer("apt-config", "shell", "it", name)  # it='false'
    return shlex.split(printed)[0].partition("=")[2] if printed else ""
