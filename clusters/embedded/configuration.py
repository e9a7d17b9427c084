"""Puts the rendered configuration of every component in its place."""

from pathlib import Path

from clusters.embedded import files, supervision
from clusters.embedded.component import Component, Host
from clusters.embedded.layout import Layout


def rendered(layout: Layout, host: Host, components: list[Component]) -> dict[Path, str]:
    """Every configuration file and what it has to say.

    Raises:
        FileNotFoundError: a program or certificate is missing.
    """
    texts = {file: text for component in components for file, text in component.files.items()}
    return texts | {supervision.path(layout): supervision.render(layout, host, components)}


def write(layout: Layout, host: Host, components: list[Component]) -> None:
    """Write all of it."""
    for directory in (layout.config, layout.cni, layout.logs, layout.volumes, layout.runtime):
        files.private_directory(directory)
    for file, text in rendered(layout, host, components).items():
        files.write(file, text, mode=0o600)


def problem(layout: Layout, host: Host, components: list[Component]) -> str | None:
    """Which files don't say what they have to, in words, or None."""
    try:
        expected = rendered(layout, host, components)
    except FileNotFoundError as error:
        return f"{error.filename} is missing"
    stale = [file.name for file, text in expected.items() if _read(file) != text]
    return f"changed since: {', '.join(stale)}" if stale else None


def _read(file: Path) -> str | None:
    try:
        return file.read_text()
    except FileNotFoundError:
        return None
