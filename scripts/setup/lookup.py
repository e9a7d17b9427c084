"""Find tools that are already on this machine, and their versions, without changing anything."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from core.paths import CHECKOUT, cache_dir
from scripts.setup import record
from scripts.setup.record import Entries, Entry, Problem
from scripts.setup.tools import Tool

# A user's PATH often lacks these directories, which contain daemons and network tools.
_SYSTEM = ("/usr/local/sbin", "/usr/sbin", "/sbin")
_SECONDS = 20


def find(tool: Tool, entries: Entries, origin: str = "on PATH") -> Entry | Problem:
    """Find a tool. `entries` lists the tools found so far, since some belong to another tool."""
    if tool.directories:
        return _find_directory(tool)
    if tool.beside is not None:
        return _find_beside(tool, entries.get(tool.beside))
    if tool.accepts is None:
        by_hand, recorded = cache_dir() / "bin" / tool.name, record.load().get(tool.name)
        why = "it can't print its version, so any copy on PATH is ignored"
        if tool.module is None and by_hand.is_file():
            if recorded and recorded.stamp != tool.stamp and recorded.holds(recorded.stamp):
                why = f"{by_hand} is for another version of Slipway"
            elif os.access(by_hand, os.X_OK):
                return Entry.from_file(by_hand, "-", "installed manually", tool.stamp)
            else:
                why = f"{by_hand} is not executable; run `chmod +x {by_hand}`"
        return Problem(tool.name, why, tool.hint)
    refused = []
    for program in _programs(tool.name):
        result = fitting(tool, program, version_of(program, *tool.version_command), origin)
        if isinstance(result, Entry):
            return result
        refused.append(result.why)
    return Problem(tool.name, "; ".join(refused) or "not on PATH", tool.hint)


def fitting(tool: Tool, path: Path, version: str | None, origin: str) -> Entry | Problem:
    """Return an entry for the tool if its version is accepted, or else a problem."""
    if version is None or tool.accepts is None or version not in tool.accepts:
        why = f"{path} is version {version or 'unknown'}; required: {tool.accepts}"
        return Problem(tool.name, why, tool.hint)
    return Entry.from_file(path, version, origin, tool.stamp)


def version_of(program: Path, *arguments: str) -> str | None:
    """Return the version that a program prints, even if it fails, or None if it prints none."""
    try:
        finished = subprocess.run(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"\d+\.\d+(?:\.\d+)?", finished.stdout + finished.stderr)
    return None if match is None else match[0]


def _programs(name: str) -> Iterator[Path]:
    """Yield all programs with this name on PATH except setup's own; the first may be too old."""
    paths, ours = set(), (cache_dir(), CHECKOUT)
    for directory in filter(None, (*os.get_exec_path(), *_SYSTEM)):
        program, place = shutil.which(name, path=directory), Path(directory)
        # Another checkout's guarded pulumi would run the one that is recorded: itself.
        is_ours = any(map(place.is_relative_to, ours)) or (place.parent / "guard.py").exists()
        if program is None or is_ours:
            continue
        if (real := os.path.realpath(program)) not in paths:
            paths.add(real)
            yield Path(program)


def _find_directory(tool: Tool) -> Entry | Problem:
    for directory in tool.directories:
        if all(os.access(directory / program, os.X_OK) for program in tool.holds):
            version = version_of(directory / tool.holds[0])
            if tool.package is not None and directory.is_relative_to("/usr"):
                # Debian's CNI plugins don't print their version, but dpkg knows it.
                query = ("--showformat=${Version}", "--show", tool.package)
                version = version_of(Path("/usr/bin/dpkg-query"), *query)
            return fitting(tool, directory, version, "on this machine")
    where = " or ".join(map(str, tool.directories))
    return Problem(tool.name, f"{', '.join(tool.holds)} are not all in {where}", tool.hint)


def _find_beside(tool: Tool, leader: Entry | None) -> Entry | Problem:
    """Find a tool that belongs to another tool's distribution, and so must be next to that tool."""
    if leader is None or leader.origin != "on PATH":
        return Problem(tool.name, f"{tool.beside}, which it belongs to, is not on PATH", tool.hint)
    program = Path(os.path.realpath(leader.path)).parent / tool.name
    if not os.access(program, os.X_OK):
        return Problem(tool.name, f"not next to {leader.path}", tool.hint)
    return Entry.from_file(program, leader.version, leader.origin, tool.stamp)
