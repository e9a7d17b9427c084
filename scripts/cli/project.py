"""Pulumi's project of a folder that has stacks' files and no program: its program is this one.

The CLI needs a Pulumi.yaml. A checkout has one; for any other folder it is made in the cache, leads
to the stacks' files by `stackConfigDir`, and to the program and the plugins by their own paths.
"""

import json
import os
from pathlib import Path
from typing import Any

from core import files
from core.paths import CHECKOUT, cache_dir, environment_dir, project_dir, project_name

_PROGRAM = """\
import runpy
import sys

sys.path.insert(0, {0!r})
runpy.run_path({0!r} + "/__main__.py", run_name="__main__")
"""


def directory() -> Path:
    """Return the directory with the Pulumi.yaml: the checkout's, or one that is made here."""
    if project_dir().resolve() == CHECKOUT:
        return CHECKOUT
    place = cache_dir() / "projects" / project_name()
    contents = {
        "Pulumi.yaml": json.dumps(_project(place)),
        "__main__.py": _PROGRAM.format(str(CHECKOUT)),
    }
    for name, content in contents.items():
        file = place / name
        if not file.exists() or file.read_text() != content:
            place.mkdir(parents=True, exist_ok=True)
            files.write(file, content, mode=0o644)
    return place


def _project(place: Path) -> dict[str, Any]:
    import yaml  # noqa: PLC0415 - a checkout does without

    document: dict[str, Any] = yaml.safe_load((CHECKOUT / "Pulumi.yaml").read_text())
    document["name"] = project_name()
    document["runtime"]["options"]["virtualenv"] = str(environment_dir())
    # The CLI joins it to the directory of its file, even if it is absolute.
    document["stackConfigDir"] = os.path.relpath(project_dir().resolve(), place.resolve())
    for plugin in document["plugins"]["providers"]:
        plugin["path"] = str(CHECKOUT / plugin["path"])
    return document


def arguments(folder: Path | None = None) -> list[str]:
    """Return what the CLI finds its project by; if it is called in a `folder`, only in its own."""
    place = directory()
    is_others = folder is not None and folder.resolve() != project_dir().resolve()
    return [] if is_others or place == CHECKOUT else ["--cwd", str(place)]
