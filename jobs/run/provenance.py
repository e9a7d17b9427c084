"""What a run is trained by, as far as it can be known before: revision, image, data, settings."""

from collections.abc import Mapping
from typing import Any

from core.paths import CHECKOUT
from core.process import CommandFailed, run

_GIT_SECONDS = 5.0
_STATUS = ("git", "--no-optional-locks", "status", "--porcelain=v2", "--branch")
_COMMIT = "# branch.oid "
_NO_COMMIT = "(initial)"


def provenance(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a run with these inputs is trained by; what is not known is left out.

    `revision` is the commit of the program's directory, with "-dirty" where files differ from it or
    are in no commit. `image` is the reference in the manifest, `data` as it is declared, with its
    sha256 where that is declared, and `settings` the whole declaration.
    """
    settings = inputs.get("declared") or {}
    specs = inputs["manifest"]["spec"]["pytorchReplicaSpecs"]
    pod = next(iter(specs.values()))["template"]["spec"]
    known = {
        "revision": revision(),
        "image": pod["containers"][0].get("image"),
        "data": settings.get("data"),
        "settings": settings,
    }
    return {name: value for name, value in known.items() if value is not None}


def revision() -> str | None:
    """Return the commit of the program's directory; None where git does not answer in time."""
    try:
        lines = run(*_STATUS, cwd=CHECKOUT, limit=_GIT_SECONDS).splitlines()
    except CommandFailed:
        return None
    commits = [line.removeprefix(_COMMIT) for line in lines if line.startswith(_COMMIT)]
    if commits in ([], [_NO_COMMIT]):
        return None
    is_changed = any(not line.startswith("#") for line in lines)
    return f"{commits[0]}-dirty" if is_changed else commits[0]
