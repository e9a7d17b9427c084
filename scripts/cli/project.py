"""Provide a Pulumi project for a folder that contains stack files but no program.

The CLI requires a Pulumi.yaml. The checkout has one; for any other folder, one is created in the
cache, with that folder as `stackConfigDir` and the paths of this checkout's program and plugins.
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
    """Return the directory with Pulumi.yaml: the checkout, or one that this function creates."""
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
    import yaml  # noqa: PLC0415 - a checkout does not need it

    document: dict[str, Any] = yaml.safe_load((CHECKOUT / "Pulumi.yaml").read_text())
    document["name"] = project_name()
    document["runtime"]["options"]["virtualenv"] = str(environment_dir())
    # The CLI appends this path to Pulumi.yaml's directory, even if the path is absolute.
    document["stackConfigDir"] = os.path.relpath(project_dir().resolve(), place.resolve())
    for plugin in document["plugins"]["providers"]:
        plugin["path"] = str(CHECKOUT / plugin["path"])
    return document


def arguments(folder: Path | None = None) -> list[str]:
    """Return the CLI options that select the project, or [] if `folder` is not this project's."""
    place = directory()
    is_others = folder is not None and folder.resolve() != project_dir().resolve()
    return [] if is_others or place == CHECKOUT else ["--cwd", str(place)]
