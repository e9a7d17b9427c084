"""What a run is trained by, as far as it can be known before: revision, image, data, settings."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.paths import CHECKOUT
from core.process import CommandFailed, run

_GIT_SECONDS = 5.0
_STATUS = ("git", "--no-optional-locks", "status", "--porcelain=v2", "--branch")
_COMMIT = "# branch.oid "


def provenance(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a run with these inputs is trained by; what is not known is left out.

    `revision` is the commit of the directory of the job's script or build, otherwise of this one,
    with "-dirty" where files differ from it or are in no commit. `image` is the reference that
    pods run, `files` the ConfigMaps with the script, whose names change with its content, `data` as
    it is declared, with its sha256 where that is declared, and `settings` the whole declaration.
    """
    settings, script = inputs["job"], inputs.get("script")
    known = {
        "revision": revision(_directory(settings)),
        "image": inputs["image"],
        "files": None if script is None else [script["name"]],
        "data": settings.get("data"),
        "settings": settings,
    }
    return {name: value for name, value in known.items() if value is not None}


def _directory(settings: Mapping[str, Any]) -> Path:
    """Return where a job's own program is, or this checkout."""
    build = settings.get("build")
    own = settings.get("script") or (build.get("context") if isinstance(build, Mapping) else build)
    place = CHECKOUT / str(own or "")
    return place if place.is_dir() else place.parent


def revision(directory: Path) -> str | None:
    """Return the commit of a directory; None where it has none, or git does not answer in time."""
    try:
        lines = run(*_STATUS, cwd=directory, limit=_GIT_SECONDS).splitlines()
    except (CommandFailed, OSError):
        return None
    commits = [line.removeprefix(_COMMIT) for line in lines if line.startswith(_COMMIT)]
    if commits in ([], ["(initial)"]):
        return None
    is_changed = any(not line.startswith("#") for line in lines)
    return f"{commits[0]}-dirty" if is_changed else commits[0]
