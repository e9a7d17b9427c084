"""The proof at the end of `make down`: looks for whatever could be left of a stack."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from clusters import CLUSTERS
from core.manifests import called
from core.paths import CHECKOUT
from infra import settings
from jobs.logs import archive
from scripts.cli import backend
from scripts.cli.recovery import orphans

_WAIT_SECONDS = 10.0
"""The kernel takes a moment to end a killed process and to close its files."""
_POLL_SECONDS = 0.2


def prove(stack: str, cluster: Mapping[str, Any], echo: Callable[[str], None]) -> bool:
    """Print that nothing of a stack is left, or what is and how to remove it.

    Args:
        stack: Its name.
        cluster: Its settings.
        echo: Prints lines.

    Returns:
        Whether nothing is left.
    """
    deadline = time.monotonic() + _WAIT_SECONDS
    while any((found := _remains(stack, cluster)).values()) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    left = [thing for things in found.values() for thing in things]
    if left:
        listed = "".join(f"\n  {thing}" for thing in left)
        echo(f"Left of {stack}, each with the command that removes it:{listed}")
        return False
    kinds = ", ".join(f"0 {kind}" for kind in found)
    echo(f"Nothing of {stack} is left: {kinds}.")
    return True


def _remains(stack: str, cluster: Mapping[str, Any]) -> dict[str, list[str]]:
    found = {kind: list(things) for kind, things in _of_cluster(stack, cluster).items()}
    processes = [f"process {pid}, without its pulumi: kill {pid}" for pid in orphans(CHECKOUT)]
    files = [
        f"{path}: rm -r {path}"
        for path in [*backend.files(stack), *_there(archive.of_stack(stack))]
    ]
    for kind, things in (("processes", processes), ("files", files)):
        found[kind] = [*found.get(kind, []), *things]
    return found


def _of_cluster(stack: str, cluster: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
    """Invalid settings never made a cluster: `pulumi up` refuses them immediately."""
    try:
        parsed = settings.parse({"slipway:cluster": json.dumps(cluster)}, stack).cluster
    except settings.SettingsError:
        return {}
    return CLUSTERS[parsed.kind].remains(parsed.options, called(backend.project(), stack))


def _there(path: Path) -> list[Path]:
    return [path] if path.exists() else []
