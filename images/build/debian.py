"""Debian, from where this machine gets its packages: the base image, or one package unpacked.

The base image is pulled where its registry can be reached, else made of Debian's packages.
"""

import os
import platform
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from core import toolchain
from core.process import CommandFailed, run
from images.build.engines import Engine, Plan, answer
from images.build.runner import BuildFailed, Runner

SUITE = "trixie"
PYTHON = "3.13"
"""The version that `SUITE` has."""
PUBLISHED = "docker.io/library/debian:trixie-slim"
"""What the trainers' Dockerfiles start from."""
PULL_LIMIT = 180.0
_DOCKERFILE = 'FROM scratch\nADD base.tar /\nCMD ["bash"]\n'
_POCKETS = ("", "-updates", "-security")
_UNPACK_LIMIT = 300.0
# What Debian's own slim images leave out, too.
_LEFT_OUT = ("man", "info", "locale", "lintian", "doc")


class NoPackage(Exception):
    """A Debian package is not available here; the text has why."""


def base_image(engine: Engine, runner: Runner, work: Path, suite: str = SUITE) -> str:
    """Return the reference of a Debian that `engine` has, after printing which it is.

    Args:
        engine: What builds on it.
        runner: Runs the commands.
        work: A directory for temporary files.
        suite: The Debian that is needed.

    Raises:
        BuildFailed: it can be neither pulled nor made.
        core.toolchain.ToolMissing: it can't be pulled, and mmdebstrap is missing.
    """
    published = PUBLISHED.replace(SUITE, suite)
    try:
        runner.run(f"pulling {published}", engine.pull(published), PULL_LIMIT)
    except BuildFailed:
        # The log has the reason: most often the registry is unreachable, which is no problem here.
        return _own_base(engine, runner, work, suite, published)
    runner.reporter.info(f"base image {published}, pulled: {answer(*engine.digest(published))}")
    return published


def _own_base(engine: Engine, runner: Runner, work: Path, suite: str, published: str) -> str:
    own = f"localhost/slipway-base:{suite}"
    for earlier in (published, own):
        if answer(*engine.digest(earlier)):
            return earlier
    mirrors = sources(suite)
    origin = " and ".join(mirrors) or "Debian's own mirror"
    runner.reporter.info(
        f"base image {published} can't be pulled; made of Debian's packages: {origin}"
    )
    context = work / "base"
    context.mkdir()
    (context / "Dockerfile").write_text(_DOCKERFILE)
    command = bootstrap(toolchain.path("mmdebstrap"), context / "base.tar", mirrors, suite)
    runner.run("making the base image", command)
    plan = Plan(context, context / "Dockerfile")
    runner.run("importing the base image", engine.build(plan, own))
    shutil.rmtree(context)
    return own


def mirror_lines(indextargets: str, codename: str, suite: str = SUITE) -> list[str]:
    """Return the sources of a suite on the mirrors that this machine uses for its own Debian.

    Args:
        indextargets: What `indextargets` printed: apt itself has read sources of both formats.
        codename: Of this machine's Debian; its suites' names begin with it.
        suite: Which.
    """
    lines = {
        f"deb {uri} {suite}{release.removeprefix(codename)} main": None
        for uri, release, component in (line.split("|") for line in indextargets.split())
        if component == "main" and release in [f"{codename}{pocket}" for pocket in _POCKETS]
    }
    return list(lines)


def sources(suite: str = SUITE) -> list[str]:
    """Return `mirror_lines` of this machine; none where it is no Debian."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return []
    targets = answer(
        "apt-get", "indextargets", "--no-release-info",
        "--format", "$(REPO_URI)|$(RELEASE)|$(COMPONENT)", "Created-By: Packages",
    )  # fmt: skip
    if release["ID"] != "debian" or "VERSION_CODENAME" not in release or targets is None:
        return []
    return mirror_lines(targets, release["VERSION_CODENAME"], suite)


def proxies() -> dict[str, str]:
    """Return the proxy variables that hold for a build, from the environment, else from apt."""
    names = ("http_proxy", "https_proxy", "no_proxy")
    found = {name: os.environ.get(name, os.environ.get(name.upper(), "")) for name in names}
    for name, option in (("http_proxy", "http"), ("https_proxy", "https")):
        if not found[name]:
            setting = answer("apt-config", "shell", "proxy", f"Acquire::{option}::Proxy")
            found[name] = _value(setting or "")
    return {name: value for name, value in found.items() if value and value != "DIRECT"}


def bootstrap(
    mmdebstrap: Path, archive: Path, mirrors: list[str], suite: str = SUITE
) -> tuple[str, ...]:
    """Return the command that writes a minimal Debian to `archive`, as a tar file.

    Args:
        mmdebstrap: The program.
        archive: Where to.
        mirrors: Lines of sources; without any it is Debian's own mirror.
        suite: The Debian that is needed.
    """
    options = [
        "--variant=minbase",
        "--mode=root",
        "--format=tar",
        *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in _LEFT_OUT),
        "--dpkgopt=path-include=/usr/share/doc/*/copyright",
        '--aptopt=Acquire::Languages "none"',
        *(f'--aptopt={name} "{value}"' for name, value in _freshness().items()),
    ]
    return (str(mmdebstrap), *options, suite, str(archive), *mirrors)


def unpack(package: str, directory: Path) -> None:
    """Have apt download a package of this machine's Debian, and unpack it into `directory`.

    Nothing is installed. Where the machine's own lists of packages are missing or out of date,
    which is how container images are shipped, lists of our own are fetched.

    Raises:
        NoPackage: this machine has no apt, or apt can't get it.
    """
    directory.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=".apt-") as name:
        private = Path(name)
        (private / "lists" / "partial").mkdir(parents=True)
        # As root apt would change to a user that may not write here, and warn about it.
        apt = ("apt-get", "--quiet", "--option=APT::Sandbox::User=root")
        ours = (*apt, f"--option=Dir::State::Lists={private}/lists")
        call = partial(run, cwd=private, limit=_UNPACK_LIMIT)
        try:
            try:
                call(*apt, "download", package)
            except CommandFailed:
                call(*ours, "update")
                call(*ours, "download", package)
            archive = next(private.glob("*.deb"))
            call("dpkg-deb", "--extract", str(archive), str(directory))
        except CommandFailed as error:
            raise NoPackage(str(error)) from None


def _freshness() -> Mapping[str, str]:
    """Whether this machine takes package lists from a mirror that stands still."""
    names = ("Acquire::Check-Valid-Until", "Acquire::Check-Date")
    values = {name: _value(answer("apt-config", "shell", "it", name) or "") for name in names}
    return {name: value for name, value in values.items() if value}


def _value(assignment: str) -> str:
    """Return what `apt-config shell` assigns: `it='false'` is `false`."""
    return shlex.split(assignment)[0].partition("=")[2] if assignment else ""
