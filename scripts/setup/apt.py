"""Debian packages: installs them as root, after printing which, and starts no service."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from scripts.setup.steps import Steps

POLICY = Path("/usr/sbin/policy-rc.d")
"""Maintainer scripts ask this program before they start a service; 101 means no."""
_OURS = "#!/bin/sh\n# Made by Slipway's set-up for the time of an installation.\n"
_APT = ("apt-get", "--option", "DPkg::Lock::Timeout=120", "--quiet")


def obstacle() -> str | None:
    """Return why packages can't be installed here, or None."""
    if shutil.which("apt-get") is None:
        return "this system has no apt-get"
    if os.geteuid() != 0:
        return "only root can install packages"
    return None


def install(packages: Sequence[str], steps: Steps) -> None:
    """Install packages from the mirror in the machine's own apt configuration.

    Raises:
        StepFailed: apt failed; the text has the end of its output.
    """
    steps.console.print(f"Debian packages that will be installed: {' '.join(packages)}")
    variables = {"DEBIAN_FRONTEND": "noninteractive"}
    options = ("--yes", "--no-remove", "--no-install-recommends")
    with services_stay_down(POLICY):
        steps.run(
            "Reading the package lists",
            (*_APT, "update"),
            log="apt-update",
            estimate="10 s, 50 MB",
            limit=300.0,
            variables=variables,
        )
        steps.run(
            "Installing the packages",
            (*_APT, "install", *options, *packages),
            log="apt-install",
            estimate="30 s, 250 MB",
            limit=900.0,
            variables=variables,
        )


@contextmanager
def services_stay_down(policy: Path) -> Iterator[None]:
    """Let no package start a service meanwhile.

    A policy that an administrator has made stays in force as it is. One of ours that a killed
    set-up left behind forbids nothing any more, and is removed at the end, too.
    """
    ours = not policy.exists() or policy.read_text().startswith(_OURS)
    if ours:
        policy.write_text(f"{_OURS}[ ! -d /proc/{os.getpid()} ] || exit 101\n")
        policy.chmod(0o755)
    try:
        yield
    finally:
        if ours:
            policy.unlink(missing_ok=True)
