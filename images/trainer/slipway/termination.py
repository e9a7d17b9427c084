"""What a rank leaves behind when it ends: its termination message.

The kubelet copies the file /dev/termination-log of a container into the pod's status, up to
4096 bytes of it, so a result reaches the job's owner without anybody reading logs. Of a message
that is longer the log has the whole: an event `summary`, which `make up` reads where the message
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

from slipway.events import Events, own_rank

LIMIT_BYTES = 4096
_SHORT = 500
_stand_in: dict[str, str] = {}
"""`dataset`, the name of one that stands in for another, once this process has read it."""


def leave(message: dict[str, Any]) -> None:
    """Write `message` where `place` says, when there is a place for it."""
    path = place()
    if path is None:
        return
    whole = corrected(message)
    if "SLIPWAY_MESSAGE_DIR" in os.environ:
        path.write_text(json.dumps(whole))
        return
    fitting = fit(whole)
    if "cut" in fitting:
        Events(whole.get("rank", own_rank())).emit("summary", summary=whole)
    path.write_text(json.dumps(fitting))


def corrected(message: dict[str, Any]) -> dict[str, Any]:
    """Return `message` with the name of the data set that was really read, where it was noted."""
    return {**message, **_stand_in}


def place() -> Path | None:
    """Return the file for this process' message; None without one, as outside of a pod.

    A process that `slipway_trainer.launch` waits for has a file of its own in SLIPWAY_MESSAGE_DIR,
    of any length. Otherwise it is the container's, which the kubelet makes beforehand; of several
    processes that share it, it is the first one's. TERMINATION_LOG names another one.
    """
    if directory := os.environ.get("SLIPWAY_MESSAGE_DIR"):
        return Path(directory, f"{own_rank()}.json")
    path = Path(os.environ.get("TERMINATION_LOG", "/dev/termination-log"))
    return path if os.environ.get("LOCAL_RANK", "0") == "0" and path.exists() else None


def read(path: Path | None) -> dict[str, Any]:
    """Return the message in `path`, empty when there is none or it is no JSON object."""
    try:
        message = {} if path is None else json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return message if isinstance(message, dict) else {}


def fit(message: dict[str, Any]) -> dict[str, Any]:
    """Return `message`, or as much of it as is JSON of at most LIMIT_BYTES.

    Then `cut` lists the fields of which something is missing. What goes first matters least: the
    outer lines of a long traceback, the artifacts that artifacts.json lists as well (it comes first
    and stays), numbers of early epochs; and then whatever is longest. Of a failure there is no
    `cut`: its traceback is in the log by itself.
    """
    left, cut = dict(message), set[str]()

    def noted() -> dict[str, Any]:
        return {**left, "cut": sorted(cut)} if cut and "error" not in left else left

    while len(json.dumps(noted()).encode()) > LIMIT_BYTES:
        cut.add(_shorten(left))
    return noted()


def _shorten(message: dict[str, Any]) -> str:
    """Take a bit away from `message`, of what it can spare best; return which field that was."""
    if len(message.get("traceback", "")) > LIMIT_BYTES // 2:
        message["traceback"] = message["traceback"][200:]
        return "traceback"
    if len(artifacts := message.get("artifacts", {})) > 1:
        message["artifacts"] = dict(list(artifacts.items())[:-1])
        return "artifacts"
    if histories := message.get("epoch_metrics"):
        # A tenth at a time: each look at what is left takes as long as that is.
        most = max(map(len, histories.values())) * 9 // 10
        message["epoch_metrics"] = {name: each[-most:] for name, each in histories.items() if most}
        return "epoch_metrics"
    if message.get("epoch_accuracies"):
        message["epoch_accuracies"] = message["epoch_accuracies"][1:]
        return "epoch_accuracies"
    longest_field = max(message, key=lambda key: len(json.dumps(message[key])))
    value = message[longest_field]
    if isinstance(value, str) and len(value) > _SHORT:
        is_trace = longest_field == "traceback"
        message[longest_field] = value[-_SHORT:] if is_trace else value[:_SHORT]
    else:
        del message[longest_field]
    return longest_field


def name_dataset(name: str, note: str) -> None:
    """Have the message name the data set that was really read, whatever the program says.

    That goes for a program, too, that writes the message itself, or none. The first time, `note`
    goes to standard error.
    """
    if not _stand_in:
        print(note, file=sys.stderr, flush=True)
        atexit.register(_correct)
    _stand_in["dataset"] = name


def _correct() -> None:
    """At the end of the process: put the data set's name into what the program left."""
    if hasattr(sys, "last_value"):
        return  # it failed, and its traceback says more
    path = place()
    try:
        left = json.loads(path.read_text() or "{}") if path is not None and path.exists() else {}
    except ValueError:
        return
    if isinstance(left, dict):
        leave({"rank": own_rank(), **left})
