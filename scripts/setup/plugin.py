"""Pulumi's plugins: a real one wherever one is available, else this checkout's stand-in."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from importlib.metadata import version as version_of_package
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from core.process import CommandFailed, run
from scripts.environment import AZURE_STAND_IN, KUBERNETES_STAND_IN, downloaded, pulumi_home
from scripts.setup import bootstrap
from scripts.setup.lookup import search_path, version_of
from scripts.setup.record import Entry, Problem, trust
from scripts.setup.tools import Release

if TYPE_CHECKING:
    from clusters.cluster import Kind
    from scripts.setup.steps import Steps

STAND_IN_ORIGIN = "stand-in of this repository, since the download failed: "
_INSTALL_LIMIT = 300  # seconds
_RELEASE = Release(
    # https://github.com/pulumi/pulumi-kubernetes/releases, and likewise for each provider
    "https://github.com/pulumi/pulumi-{tool}/releases/download/v{version}/"
    "pulumi-resource-{tool}-v{version}-{system}-{machine}.tar.gz",
    "https://github.com/pulumi/pulumi-{tool}/releases/download/v{version}/"
    "pulumi-{tool}_{version}_checksums.txt",
)


@dataclass(frozen=True)
class Plugin:
    """A plugin of Pulumi's that is published on its own download site only.

    Args:
        package: As Pulumi calls it; its SDK is the Python package `pulumi-PACKAGE`.
        directory: The folder of its stand-in in this checkout.
        line: What set-up prints at its end when the stand-in is used.
        extra: The extra of pyproject.toml that its SDK is in; None where every stack needs it.
    """

    package: str
    directory: Path
    estimate: str
    line: str
    extra: str | None = None

    @property
    def name(self) -> str:
        """The program's name."""
        return f"pulumi-resource-{self.package}"

    @property
    def version(self) -> str:
        """The version that the program needs: its SDK's."""
        return version_of_package(f"pulumi-{self.package}")

    @property
    def stand_in(self) -> Path:
        """The program that stands in for it."""
        return self.directory / self.name

    def downloaded(self) -> Path | None:
        """Return the program that Pulumi has fetched in the version that is needed, or None."""
        wanted = f"v{self.version}"
        found = (each for each in downloaded(self.package) if each.name.endswith(wanted))
        return next((directory / self.name for directory in found), None)


KUBERNETES = Plugin(
    "kubernetes",
    KUBERNETES_STAND_IN,
    "20 s",
    "pulumi-kubernetes' plugin could not be downloaded, so the stand-in in scripts/offline "
    "serves its resources; a real one on PATH takes its place.",
)
AZURE = Plugin(
    "azure-native",
    AZURE_STAND_IN,
    "1 min",
    "azure-native's plugin could not be downloaded, so the stub in scripts/offline "
    "serves previews; `up` needs a real one, downloaded or on PATH.",
    extra=bootstrap.AZURE,
)


def of_kind(kind: Kind | None) -> tuple[Plugin, ...]:
    """Return the plugins that a stack with that kind of cluster needs."""
    needed = {None} if kind is None else {None, kind.extra}
    return tuple(each for each in (KUBERNETES, AZURE) if each.extra in needed)


def is_stand_in(entry: Entry) -> bool:
    """Return True for another checkout's, too: they share one record."""
    return entry.origin.startswith(STAND_IN_ORIGIN)


def settled(plugin: Plugin, recorded: Entry | None) -> bool:
    """Return whether `provide` would find what was recorded, without running anything."""
    if recorded is None:
        return False
    on_path = shutil.which(plugin.name, path=search_path())
    if on_path is None and is_stand_in(recorded):
        same = recorded.stamp == plugin.version and plugin.stand_in.exists()
        return same and plugin.downloaded() is None
    return (
        on_path in {None, recorded.path}
        and recorded.holds(plugin.version)
        and recorded.version == plugin.version
    )


def provide(plugin: Plugin, recorded: Entry | None, pulumi: Entry, steps: Steps) -> Entry | Problem:
    """Find a plugin, download it with the CLI, or fall back to its stand-in.

    The download is tried once for each version: that it failed is part of the record.
    """
    # A stand-in may be another checkout's, which is replaced by ours.
    if recorded is not None and not is_stand_in(recorded) and settled(plugin, recorded):
        return recorded
    stamp = plugin.version
    on_path = shutil.which(plugin.name, path=search_path())
    if on_path is not None:
        version = version_of(Path(on_path), "--version") or "unknown"
        if version != stamp:
            # Pulumi would take it whatever its version, and hand it the cluster's kubeconfig.
            why = f"{on_path} is version {version}, and pulumi-{plugin.package} needs {stamp}"
            return Problem(plugin.name, why, f"Take it off PATH, or put {stamp} there.")
        return Entry.of(Path(on_path), version, "on PATH", stamp)
    if recorded is not None and recorded.stamp == stamp and is_stand_in(recorded):
        failure = recorded.origin.removeprefix(STAND_IN_ORIGIN)
    else:
        failure = _download(plugin, Path(pulumi.path), steps)
    place = plugin.downloaded()  # the user may have fetched it by hand
    if place is not None:
        return Entry.of(place, stamp, "downloaded", stamp)
    if not plugin.stand_in.exists():
        why = f"its download failed ({failure}) and {plugin.stand_in} is missing"
        return Problem(plugin.name, why, f"Put {plugin.name} {stamp} on PATH.")
    return Entry.of(plugin.stand_in, "-", f"{STAND_IN_ORIGIN}{failure}", stamp)


def _download(plugin: Plugin, pulumi: Path, steps: Steps) -> str:
    """Fetch the plugin and have the CLI install it. Return why that failed, or nothing.

    The CLI's own `--checksum` (3.250.0) misses what arrives in the same read as the stream's end.
    """
    from scripts.setup import releases  # noqa: PLC0415 - its HTTP client takes a while to load

    address, checksums = _RELEASE.addresses(plugin.version, plugin.package)
    title = f"Downloading {plugin.package}'s plugin {plugin.version}"
    name = ("resource", plugin.package, plugin.version)
    try:
        with (
            steps.shown(title, plugin.estimate),
            TemporaryDirectory(prefix="slipway-") as directory,
        ):
            archive = Path(directory) / "plugin.tar.gz"
            checksum = releases.published(address, checksums)
            releases.save(address, checksum, archive, steps)
            run(
                *(str(pulumi), "plugin", "install", *name, "--file", str(archive)),
                variables={"PULUMI_HOME": str(pulumi_home())},
                limit=_INSTALL_LIMIT,
            )
            trust(address, checksum)
    except (releases.Refused, CommandFailed) as error:
        text = f"  not available ({error}): the stand-in of this repository is used"
        steps.console.print(text, markup=False)
        return f"{error}"
    return ""
