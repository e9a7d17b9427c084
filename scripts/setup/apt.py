"""Install Debian packages as root, or unpack them, after printing their names."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from core.paths import cache_dir
from core.process import CommandFailed
from images.build import debian
from scripts.setup.lookup import find, fitting, version_of
from scripts.setup.record import Entry, Problem, Results
from scripts.setup.steps import StepFailed, Steps
from scripts.setup.tools import Tool

POLICY = Path("/usr/sbin/policy-rc.d")
"""The program that maintainer scripts run before starting a service; exit status 101 forbids it."""
ENABLED = Path("/etc/systemd/system")
_OURS = "#!/bin/sh\n# Made by Slipway's set-up for the time of an installation.\n"
_APT = ("apt-get", "--option", "DPkg::Lock::Timeout=120", "--quiet")


def provide(tools: Sequence[Tool], steps: Steps) -> Results:
    """Unpack the packages that tools list in `unpacked`, and install all others in one command."""
    results = {tool.name: _unpack(tool, steps) for tool in tools if tool.unpacked}
    packages = sorted({tool.package for tool in tools if tool.package is not None})
    obstacle = install(packages, steps) if packages else None
    for tool in tools:
        if tool.package is not None:
            result = find(tool, {}, "Debian package")
            if isinstance(result, Problem) and obstacle is not None:
                remedy = f"As root: apt-get install {' '.join(packages)}"
                result = Problem(tool.name, f"{result.why}; {obstacle}", remedy)
            results[tool.name] = result
    return results


def install(packages: Sequence[str], steps: Steps) -> str | None:
    """Install packages with apt-get; return None, or the reason why they can't be installed."""
    if shutil.which("apt-get") is None:
        return "this system does not have apt-get"
    if os.geteuid() != 0:
        return "only root can install packages"
    steps.console.print(f"Debian packages to be installed: {' '.join(packages)}")
    install = ("install", "--yes", "--no-remove", "--no-install-recommends", *packages)
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    try:
        with services_stay_down(POLICY):
            for title, command, estimate, limit in (
                ("Reading the package lists", ("update",), "10 s, 50 MB", 300.0),
                # A killed dpkg would leave packages half-installed, and fail from then on.
                ("Installing the packages", install, "30 s, 250 MB", float("inf")),
            ):
                log, line = f"apt-{command[0]}", (*_APT, *command)
                steps.run(title, line, log=log, estimate=estimate, limit=limit, variables=quiet)
    except StepFailed as failure:
        return str(failure)
    return None


@contextmanager
def services_stay_down(policy: Path) -> Iterator[None]:
    """Stop packages from starting services, now (unless the user set a policy) or at each boot."""
    # A policy that a killed setup run left behind has no effect, and is removed, too.
    ours = not policy.exists() or policy.read_text().startswith(_OURS)
    if ours:
        policy.write_text(f"{_OURS}[ ! -d /proc/{os.getpid()} ] || exit 101\n")
        policy.chmod(0o755)
    enabled = {*ENABLED.glob("*.wants/*")}
    try:
        yield
    finally:
        if ours:
            policy.unlink(missing_ok=True)
        for link in {*ENABLED.glob("*.wants/*")} - enabled:
            link.unlink()


def _unpack(tool: Tool, steps: Steps) -> Entry | Problem:
    """Unpack a tool's packages into a separate directory in the cache."""
    names, directory = ", ".join(tool.unpacked), cache_dir() / tool.name
    steps.console.print(f"Debian packages to be unpacked, not installed: {names}")
    shutil.rmtree(directory, ignore_errors=True)
    try:
        for package in tool.unpacked:
            debian.unpack(package, directory)
    except CommandFailed as error:
        return Problem(tool.name, f"{names} can't be unpacked: {error}", tool.hint)
    libraries = next(directory.glob("usr/lib/*-linux-gnu"), directory)
    program = directory / "usr" / "bin" / tool.unpacked[0]
    command = (f"LD_LIBRARY_PATH={libraries}", str(program), *tool.version_command)
    version = version_of(Path("/usr/bin/env"), *command)
    return fitting(tool, directory, version, "unpacked Debian packages")
