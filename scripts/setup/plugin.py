"""pulumi-kubernetes' plugin: a real one wherever there is one, else this checkout's stand-in."""

import os
import shutil
import subprocess
from importlib.metadata import version as version_of_package
from pathlib import Path

from rich.console import Console

from infra.paths import CHECKOUT
from scripts.environment import downloaded_plugins, pulumi_home
from scripts.setup import versions
from scripts.setup.lookup import search_path
from scripts.setup.problems import Problem
from scripts.setup.record import Entry

NAME = "pulumi-resource-kubernetes"
STAND_IN = CHECKOUT / "scripts" / "offline" / "bin" / NAME
STAND_IN_ORIGIN = "stand-in of this repository, since the download failed: "
_DOWNLOAD_LIMIT = 120  # seconds


def provide(recorded: Entry | None, pulumi: Entry, console: Console) -> Entry | Problem:
    """Finds the plugin, downloads it, or falls back to the stand-in.

    The download is tried once for each version: that it failed is part of the record.

    Args:
        recorded: What an earlier set-up found.
        pulumi: The CLI, whose own download of plugins is used.
        console: Where progress goes.
    """
    stamp = sdk_version()
    on_path = shutil.which(NAME, path=search_path())
    if on_path is not None:
        version = versions.ask(Path(on_path), ("--version",)) or "not told"
        return Entry.of(Path(on_path), version, "on PATH", stamp)
    if recorded is not None and recorded.holds(stamp) and recorded.version == stamp:
        return recorded
    if recorded is not None and recorded.stamp == stamp and is_stand_in(recorded):
        failure = recorded.origin.removeprefix(STAND_IN_ORIGIN)
    else:
        console.print(f"Downloading pulumi-kubernetes' plugin {stamp} [dim](about 20 s)[/dim]")
        failure = _download(Path(pulumi.path), stamp)
        for directory in downloaded_plugins():
            if directory.name.endswith(f"v{stamp}"):
                return Entry.of(directory / NAME, stamp, "downloaded by pulumi", stamp)
        console.print(f"  not to be had ({failure}): the stand-in of this repository is used")
    if not STAND_IN.exists():
        remedy = f"Put {NAME} {stamp} on PATH."
        return Problem(NAME, f"its download failed ({failure}) and {STAND_IN} is missing", remedy)
    return Entry.of(STAND_IN, "-", f"{STAND_IN_ORIGIN}{failure}", stamp)


def sdk_version() -> str:
    """The version of the SDK that the program uses: the plugin has the same."""
    return version_of_package("pulumi-kubernetes")


def is_stand_in(entry: Entry) -> bool:
    """True for another checkout's, too: they share one record."""
    return entry.origin.startswith(STAND_IN_ORIGIN)


def _download(pulumi: Path, version: str) -> str:
    """Asks the CLI to fetch the plugin. Returns why it could not, or nothing."""
    try:
        finished = subprocess.run(
            [pulumi, "plugin", "install", "resource", "kubernetes", version],
            env={**os.environ, "PULUMI_HOME": str(pulumi_home())},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_DOWNLOAD_LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no end within {_DOWNLOAD_LIMIT} s"
    if finished.returncode == 0:
        return ""
    return (finished.stderr.strip().splitlines() or ["no reason given"])[-1]
