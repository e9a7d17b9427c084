"""The part of `make setup` that runs in the Python environment: provide tools and the state."""

import os
import sys
from dataclasses import replace
from pathlib import Path

from clusters.cluster import Kind
from clusters.kinds import CLUSTERS, default_name
from core.paths import cache_dir, use_extra
from scripts.cli.config import cluster_of
from scripts.cli.terminal import CommandError, echo
from scripts.environment import prepare
from scripts.setup import bootstrap, record
from scripts.setup.tools import tools_of


def provide(stack: str, *, brief: bool = False, preview: bool = False) -> int:
    """Provide a stack's tools; return 0 if all are ready, or else print what is missing.

    With `brief`, print nothing if nothing was missing; with `preview`, build no tools that only
    `up` needs. Raises `CommandError`, `OSError` or `SubprocessError`.
    """
    source = os.environ.get("SOURCE") or "release"
    if source not in {"release", "build"}:
        raise CommandError(f"SOURCE={source} is not allowed; valid values: build, release.")
    settings = cluster_of(stack)
    kind = CLUSTERS.get(name := str(settings.get("kind")))
    if kind is not None:
        more = [tool for key, tool in kind.tool_of_setting.items() if settings.get(key)]
        named = {"name": default_name(name, settings, stack), **settings}
        more += () if preview else kind.more_tools(named)
        kind = replace(kind, tools=(*kind.tools, *more))
    try:
        return set_up(kind, brief=brief, build=source == "build", preview=preview)
    except KeyboardInterrupt:
        echo("Stopping, after any package installation. Run `make setup` again to continue.")
        raise


def set_up(kind: Kind | None, *, brief: bool, build: bool, preview: bool = False) -> int:
    """Create the state and resolve the tools; see `resolve.resolve_and_report`."""
    if kind is not None and kind.extra is not None:
        bootstrap.add_extra(kind.extra, Path(sys.prefix))
        use_extra(kind.extra)
    tools = tools_of(kind)
    with bootstrap.exclusive(cache_dir() / "setup.lock"):
        prepare()
        if brief and len(record.unchanged(record.load(), tools, build=build)) == len(tools):
            return 0
        # Imported late, since the import takes longer than everything above.
        from scripts.setup.resolve import resolve_and_report  # noqa: PLC0415

        return resolve_and_report(kind, brief=brief, build=build, preview=preview)
