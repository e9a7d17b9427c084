"""A rank's termination message.

The kubelet copies up to 4096 bytes from a container's /dev/termination-log into the pod's status.
If a message is longer, fields are shortened, and `cut` lists them. `make up` then reads the full
message from the log, where it is a `summary` event.
https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/
"""

from __future__ import annotations

import atexit
import json
import os
import sys
from pathlib import Path
from typing import Any

from slipway.events import Events, given_rank, json_map, own_rank

LIMIT_BYTES = 4096
_LARGEST = 4 * 2**20
"""Maximum number of bytes to read from a message, which limits memory use."""
_stand_in: dict[str, str] = {}
"""Contains the replacement data set's name, as `dataset`, once this process has read its files."""


def leave(message: dict[str, Any]) -> None:
    """Write `message` to the file that `place` returns, if any."""
    if (path := place()) is None:
        return
    left = full = corrected(message)
    if "SLIPWAY_MESSAGE_DIR" not in os.environ:
        left = fit(full)
        if "cut" in left:
            Events(full.get("rank", own_rank())).emit("summary", summary=full)
    path.write_text(json.dumps(left))


def corrected(message: dict[str, Any]) -> dict[str, Any]:
    """Return `message`, naming the replacement data set if this process has read its files."""
    return {**message, **_stand_in}


def place() -> Path | None:
    """Return the file for this process's message, or None if there is none, such as outside a pod.

    Under Slipway's launcher, the file is in SLIPWAY_MESSAGE_DIR. Otherwise, a pod's first rank uses
    the container's file.
    """
    if directory := os.environ.get("SLIPWAY_MESSAGE_DIR"):
        return Path(directory, f"{own_rank()}.json")
    is_first = os.environ.get("LOCAL_RANK", "0") == "0" and own_rank() in {0, given_rank()}
    return container_log() if is_first else None


def container_log() -> Path | None:
    """Return the file for the container's message, or None outside a pod."""
    path = Path(os.environ.get("TERMINATION_LOG", "/dev/termination-log"))
    return path if path.exists() else None


def read(path: Path | None, limit: int = _LARGEST) -> dict[str, Any]:
    """Return the message in `path`, or an empty map if it is invalid or exceeds `limit` bytes."""
    if path is None:
        return {}
    try:
        with path.open("rb") as file:
            return json_map(file.read(limit).decode(errors="replace"))
    except OSError:
        return {}


def fit(message: dict[str, Any]) -> dict[str, Any]:
    """Return `message`, shortened so that its JSON is at most LIMIT_BYTES long.

    The longest field is shortened by a tenth at a time, starting with its least important part.
    `cut` lists the shortened fields, except after a failure, whose traceback is in the log.
    """
    left, cut = dict(message), set[str]()

    def noted() -> dict[str, Any]:
        # The names fit the limit even at twelve bytes per character.
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
    """Return `value` shortened by a tenth, or None if a part of it would be meaningless."""
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
    """Return the description in the DATASET file in `root`, or an empty map if there is none."""
    file = Path(root, "DATASET")
    return json_map(file.read_text()) if file.is_file() else {}


def name_stand_in(root: str | Path) -> None:
    """Add the name of the data set in `root`, if it replaces CIFAR-10, to all later messages."""
    name = about(root)["name"]
    if name != "cifar10" and not _stand_in:
        print(f"{root} contains {name} instead of CIFAR-10", file=sys.stderr, flush=True)
        atexit.register(_correct)
        _stand_in["dataset"] = name


def _correct() -> None:
    """When the process exits, put the replacement data set's name into the program's message."""
    if hasattr(sys, "last_value"):
        return  # it failed, and its traceback is more important
    path = place()
    text = path.read_text(errors="replace") if path is not None and path.exists() else ""
    if (left := json_map(text)) or text.strip() in {"", "{}"}:
        leave({"rank": own_rank(), **left})
