"""Pulumi's plugins: a real one wherever there is one, else what this checkout has in its place."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from importlib.metadata import version as version_of_package
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from scripts.environment import AZURE_STAND_IN, KUBERNETES_STAND_IN, downloaded, pulumi_home
from scripts.setup import versions
from scripts.setup.extra import AZURE as AZURE_EXTRA
from scripts.setup.lookup import search_path
from scripts.setup.problems import Problem
from scripts.setup.record import Entry, trust

if TYPE_CHECKING:
    from clusters.cluster import Kind
    from scripts.setup.steps import Steps

STAND_IN_ORIGIN = "stand-in of this repository, since the download failed: "
_INSTALL_LIMIT = 300  # seconds


@dataclass(frozen=True)
class Plugin:
    """A plugin of Pulumi's that is published on its own download site only.

    Args:
        package: As Pulumi calls it.
        sdk: The Python package that it goes with; both have the same version.
        directory: Of what stands in for it in this checkout.
        takes: How long a download takes, in words.
        line: What to say at the end of set-up when it is stood in for.
        extra: The extra of pyproject.toml that its SDK is in; None where every stack needs it.
    """

    package: str
    sdk: str
    directory: Path
    takes: str
    line: str
    extra: str | None = None

    @property
    def name(self) -> str:
        """The program's name."""
        return f"pulumi-resource-{self.package}"

    @property
    def version(self) -> str:
        """The version that the program needs: its SDK's."""
        return version_of_package(self.sdk)

    @property
    def stand_in(self) -> Path:
        """The program that stands in for it."""
        return self.directory / self.name


KUBERNETES = Plugin(
    "kubernetes",
    "pulumi-kubernetes",
    KUBERNETES_STAND_IN,
    "20 s",
    "pulumi-kubernetes' plugin could not be downloaded, so the stand-in in scripts/offline "
    "serves its resources; a real one on PATH takes its place.",
)
AZURE = Plugin(
    "azure-native",
    "pulumi-azure-native",
    AZURE_STAND_IN,
    "1 min",
    "azure-native's plugin could not be downloaded, so the recording double in scripts/offline "
    "serves previews; `up` needs a real one, downloaded or on PATH.",
    extra=AZURE_EXTRA,
)


def of_kind(kind: Kind | None) -> tuple[Plugin, ...]:
    """The plugins that a stack with that kind of cluster needs."""
    needed = {None} if kind is None else {None, kind.extra}
    return tuple(each for each in (KUBERNETES, AZURE) if each.extra in needed)


def settled(plugin: Plugin, recorded: Entry | None) -> bool:
    """Whether `provide` would find what was recorded, without anything being run."""
    if recorded is None:
        return False
    on_path = shutil.which(plugin.name, path=search_path())
    if on_path is None and is_stand_in(recorded):
        same = recorded.stamp == plugin.version and plugin.stand_in.exists()
        return same and _downloaded(plugin) is None
    return (
        on_path in {None, recorded.path}
        and recorded.holds(plugin.version)
        and recorded.version == plugin.version
    )


def provide(plugin: Plugin, recorded: Entry | None, pulumi: Entry, steps: Steps) -> Entry | Problem:
    """Finds a plugin, downloads it, or falls back to what stands in for it.

    The download is tried once for each version: that it failed is part of the record.

    Args:
        plugin: Which.
        recorded: What an earlier set-up found.
        pulumi: The CLI, which installs plugins.
        steps: What a download is one of.
    """
    stamp = plugin.version
    on_path = shutil.which(plugin.name, path=search_path())
    if on_path is not None:
        version = versions.ask(Path(on_path), ("--version",)) or "not told"
        if version != stamp:
            # Pulumi would take it whatever its version, and hand it the cluster's kubeconfig.
            why = f"{on_path} is version {version}, and {plugin.sdk} needs {stamp}"
            return Problem(plugin.name, why, f"Take it off PATH, or put {stamp} there.")
        return Entry.of(Path(on_path), version, "on PATH", stamp)
    if recorded is not None and recorded.holds(stamp) and recorded.version == stamp:
        return recorded
    if recorded is not None and recorded.stamp == stamp and is_stand_in(recorded):
        # Somebody may have fetched it by hand since.
        failure, place = recorded.origin.removeprefix(STAND_IN_ORIGIN), _downloaded(plugin)
    else:
        failure, place = _download(plugin, Path(pulumi.path), steps), _downloaded(plugin)
        if place is None:
            text = f"  not to be had ({failure}): the stand-in of this repository is used"
            steps.console.print(text, markup=False)
    if place is not None:
        return Entry.of(place, stamp, "downloaded", stamp)
    if not plugin.stand_in.exists():
        why = f"its download failed ({failure}) and {plugin.stand_in} is missing"
        return Problem(plugin.name, why, f"Put {plugin.name} {stamp} on PATH.")
    return Entry.of(plugin.stand_in, "-", f"{STAND_IN_ORIGIN}{failure}", stamp)


def is_stand_in(entry: Entry) -> bool:
    """True for another checkout's, too: they share one record."""
    return entry.origin.startswith(STAND_IN_ORIGIN)


def _downloaded(plugin: Plugin) -> Path | None:
    """The program that Pulumi has fetched in the version that is needed; None without."""
    found = (
        each for each in downloaded(plugin.package) if each.name.endswith(f"v{plugin.version}")
    )
    return next((directory / plugin.name for directory in found), None)


def _download(plugin: Plugin, pulumi: Path, steps: Steps) -> str:
    """Fetches the plugin and has the CLI install it. Returns why that failed, or nothing.

    The CLI's own `--checksum` (3.250.0) leaves out what arrives together with the stream's end.
    """
    from scripts.setup import releases  # noqa: PLC0415 - its HTTP client takes a while to load

    address, checksums = releases.of_plugin(plugin.package, plugin.version)
    title = f"Downloading {plugin.package}'s plugin {plugin.version}"
    try:
        with steps.shown(title, plugin.takes), TemporaryDirectory(prefix="slipway-") as directory:
            archive = Path(directory) / "plugin.tar.gz"
            checksum = releases.published(checksums, address)
            releases.save(address, checksum, archive, steps)
            _install(plugin, archive, pulumi)
            trust(address, checksum)
    except (releases.Refused, subprocess.SubprocessError) as error:
        return f"{error}"
    return ""


def _install(plugin: Plugin, archive: Path, pulumi: Path) -> None:
    name = ("resource", plugin.package, plugin.version)
    subprocess.run(
        [pulumi, "plugin", "install", *name, "--file", archive],
        env={**os.environ, "PULUMI_HOME": str(pulumi_home())},
        stdin=subprocess.DEVNULL,
        timeout=_INSTALL_LIMIT,
        check=True,
    )
