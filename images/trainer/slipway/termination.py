"""What a rank leaves behind when it ends: its termination message.

The kubelet copies up to 4096 bytes of a container's /dev/termination-log into the pod's status. Of
a longer message the log has the whole: an event `summary`, which `make up` reads where the message
says in `cut` that something of it is missing.
https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/
"""

from __future__ import annotations

import atexit
import json
import os
import sys
from pathlib import Path
from typing import Any

from slipway.events import Events, json_map, own_rank

LIMIT_BYTES = 4096
_LARGEST = 4 * 2**20
"""Of the messages that are read: a rank's memory is its program's."""
_stand_in: dict[str, str] = {}
"""`dataset`, the name of one that stands in for another, once this process has read it."""


def leave(message: dict[str, Any]) -> None:
    """Write `message` where `place` says, when there is a place for it."""
    if (path := place()) is None:
        return
    left = whole = corrected(message)
    if "SLIPWAY_MESSAGE_DIR" not in os.environ:
        left = fit(whole)
        if "cut" in left:
            Events(whole.get("rank", own_rank())).emit("summary", summary=whole)
    path.write_text(json.dumps(left))


def corrected(message: dict[str, Any]) -> dict[str, Any]:
    """Return `message` with the name of the data set that was really read, where it was noted."""
    return {**message, **_stand_in}


def place() -> Path | None:
    """Return the file for this process' message; None without one, as outside of a pod.

    It is in SLIPWAY_MESSAGE_DIR where a launcher waits, else the container's, for its first rank.
    """
    if directory := os.environ.get("SLIPWAY_MESSAGE_DIR"):
        return Path(directory, f"{own_rank()}.json")
    return container_log() if os.environ.get("LOCAL_RANK", "0") == "0" else None


def container_log() -> Path | None:
    """Return the file of the container's message; None outside of a pod."""
    path = Path(os.environ.get("TERMINATION_LOG", "/dev/termination-log"))
    return path if path.exists() else None


def read(path: Path | None, limit: int = _LARGEST) -> dict[str, Any]:
    """Return the message in `path`; empty without one of at most `limit` bytes, a JSON object."""
    if path is None:
        return {}
    try:
        with path.open("rb") as file:
            return json_map(file.read(limit).decode(errors="replace"))
    except OSError:
        return {}


def fit(message: dict[str, Any]) -> dict[str, Any]:
    """Return `message`, or as much of it as is JSON of at most LIMIT_BYTES.

    Then `cut` lists the fields of which something is missing: whatever is longest, a tenth at a
    time, what matters least first. Of a failure there is no `cut`: its traceback is in the log.
    """
    left, cut = dict(message), set[str]()

    def noted() -> dict[str, Any]:
        # Twelve bytes a character fit the limit.
        names = [name[:30] for name in sorted(cut)[:10]]
        return {**left, "cut": names} if cut and "error" not in left else left

    while left and len(json.dumps(noted()).encode()) > LIMIT_BYTES:
        longest = max(left, key=lambda field: len(json.dumps(left[field])))
        cut.add(longest)
        if shorter := _shorter(left[longest], keeps_end=longest == "traceback"):
            left[longest] = shorter
        else:
            del left[longest]
    return noted()


def _shorter(value: Any, *, keeps_end: bool) -> Any:
    """Return nine tenths of `value`, or nothing where a part of it says nothing."""
    if not isinstance(value, (dict, list, str)):
        return None
    most = len(value) * 9 // 10
    if isinstance(value, str) and not keeps_end:
        return value[:most]
    if not isinstance(value, dict):
        return value[len(value) - most :]
    if value and all(isinstance(each, list) for each in value.values()):
        longest = max(map(len, value.values())) * 9 // 10
        return {name: each[-longest:] for name, each in value.items() if longest}
    return dict(list(value.items())[:most])


def about(root: str | Path) -> dict[str, Any]:
    """Return what a directory's file DATASET says of the data set in it; empty without one."""
    file = Path(root, "DATASET")
    return json_map(file.read_text()) if file.is_file() else {}


def name_stand_in(root: str | Path) -> None:
    """Have any message name what `root` has in CIFAR-10's place, by its file DATASET."""
    name = about(root)["name"]
    if name != "cifar10" and not _stand_in:
        print(f"{root} has no CIFAR-10 but {name} in its format", file=sys.stderr, flush=True)
        atexit.register(_correct)
        _stand_in["dataset"] = name


def _correct() -> None:
    """At the end of the process: put the data set's name into what the program left."""
    if hasattr(sys, "last_value"):
        return  # it failed, and its traceback says more
    path = place()
    text = path.read_text(errors="replace") if path is not None and path.exists() else ""
    if (left := json_map(text)) or text.strip() in {"", "{}"}:
        leave({"rank": own_rank(), **left})
