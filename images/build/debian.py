"""Debian, from where this machine gets its packages: the base image, or one package unpacked.

The base image is pulled where its registry can be reached, else made of Debian's packages.
"""

import os
import platform
import shlex
import shutil
import tempfile
from functools import cache, partial
from pathlib import Path

from core import toolchain
from core.problem import raised
from core.process import CommandFailed, run
from images.build.engines import Engine, Plan, answer
from images.build.releases import SNAPSHOTS
from images.build.runner import BuildFailed, Runner

_FRESHNESS = ("Acquire::Check-Valid-Until", "Acquire::Check-Date")
"""apt's settings on a machine that takes package lists from a mirror that stands still."""
# What Debian's own slim images leave out, too.
_LEFT_OUT = ("man", "info", "locale", "lintian", "doc")


def base_image(engine: Engine, runner: Runner, work: Path, suite: str) -> str:
    """Return the reference of a Debian that `engine` has; raises `BuildFailed`, `ToolMissing`."""
    # What Dockerfiles start from.
    published, own = f"docker.io/library/debian:{suite}-slim", f"localhost/slipway-base:{suite}"
    try:
        runner.run(f"pulling {published}", engine.pull(published), 180.0)
    except BuildFailed:
        # The log has the reason: most often the registry is unreachable, which is no problem here.
        for each in (published, own):
            if answer(*engine.digest(each)):
                return each
    else:
        runner.reporter.info(f"base image {published}, pulled: {answer(*engine.digest(published))}")
        return published
    mirrors, context = sources(suite), work / "base"
    origin = " and ".join(mirrors) or "Debian's own mirror"
    runner.reporter.info(
        f"base image {published} can't be pulled; made of Debian's packages: {origin}"
    )
    context.mkdir()
    (context / "Dockerfile").write_text('FROM scratch\nADD base.tar /\nCMD ["bash"]\n')
    command = bootstrap(toolchain.path("mmdebstrap"), context / "base.tar", mirrors, suite)
    runner.run("making the base image", command)
    plan = Plan(context, context / "Dockerfile")
    runner.run("importing the base image", engine.build(plan, own))
    shutil.rmtree(context)
    return own


@cache
def snapshot(suite: str) -> str | None:
    """Return the source of `SNAPSHOTS` for a suite; None without one, or where it can't be had."""
    if (day := SNAPSHOTS.get(suite)) is None:
        return None
    import requests  # noqa: PLC0415 (the program, which builds nothing, would load it)

    url = f"http://snapshot.debian.org/archive/debian/{day}"
    by = {name.removesuffix("_proxy"): each for name, each in proxies().items()}
    try:
        asked = requests.head(f"{url}/dists/{suite}/InRelease", timeout=10.0, proxies=by)
    except requests.RequestException:
        return None
    # A moment between two states leads to the one before it.
    return f"deb [check-valid-until=no] {url} {suite} main" if asked.ok else None


def sources(suite: str) -> list[str]:
    """Return the sources for a suite: its `snapshot`, else a Debian machine's own mirrors."""
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
    """Return a build's proxy variables, by both of their names: the environment's, or apt's."""
    names = ("http_proxy", "https_proxy", "no_proxy")
    found = {name: os.environ.get(name, os.environ.get(name.upper(), "")) for name in names}
    for scheme in ("http", "https"):
        name = f"{scheme}_proxy"
        found[name] = found[name] or _apt(f"Acquire::{scheme}::Proxy")
    known = {name: value for name, value in found.items() if value and value != "DIRECT"}
    return known | {name.upper(): value for name, value in known.items()}


def bootstrap(mmdebstrap: Path, archive: Path, mirrors: list[str], suite: str) -> tuple[str, ...]:
    """Return the command for a tar file of a minimal Debian, from `mirrors` or Debian's own."""
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
    """Have apt download a package, with new lists if need be, and unpack it; or `CommandFailed`."""
    directory.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=".apt-") as name:
        private = Path(name)
        (private / "lists" / "partial").mkdir(parents=True)
        # As root apt would change to a user that may not write here, and warn about it.
        apt = ("apt-get", "--quiet", "--option=APT::Sandbox::User=root")
        ours = (*apt, f"--option=Dir::State::Lists={private}/lists")
        call = partial(run, cwd=private, limit=300.0)
        if raised(partial(call, *apt, "download", package), CommandFailed) is not None:
            call(*ours, "update")
            call(*ours, "download", package)
        call("dpkg-deb", "--extract", str(next(private.glob("*.deb"))), str(directory))


def _apt(name: str) -> str:
    """Return apt's setting of that name, empty without one."""
    printed = answer("apt-config", "shell", "it", name)  # it='false'
    return shlex.split(printed)[0].partition("=")[2] if printed else ""
