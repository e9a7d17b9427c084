"""What a rank leaves behind when it ends: its termination message and its exit code.

The kubelet copies the file /dev/termination-log of a container into the pod's status, up to
4096 bytes of it, so a result reaches the job's owner without anybody reading logs.
https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/
"""

import atexit
import faulthandler
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slipway_trainer.elastic.settings import own_index
from slipway_trainer.events import Events

LIMIT_BYTES = 4096
_SHORT = 500
EXIT_FAILED = 1
EXIT_TERMINATED = 128 + signal.SIGTERM
_stand_in: dict[str, str] = {}
"""`dataset`, the name of one that stands in for another, once this process has read it."""


def run(work: Callable[[Events], dict[str, Any]]) -> None:
    """Do the work of this rank, leave its summary or its failure behind, and end the process.

    The process ends at once, without Python's own tear-down: that could wait for ranks that
    are gone. Their connections to this one close with it, so they end within seconds, too.
    """
    # The training operator gives an elastic worker no rank: what it writes bears its index.
    events = Events(rank=int(os.environ.get("RANK", own_index())))
    _end_on_sigterm(events)
    try:
        summary = work(events)
    except BaseException as error:  # noqa: BLE001 - reported whatever it is, then the process ends
        code = _fail(events, error)
    else:
        events.emit("completed", **_without_rank(summary | _stand_in))
        leave(summary)
        code = 0
    _end(code)


def leave(message: dict[str, Any]) -> None:
    """Write `message` where `place` says, when there is a place for it."""
    path = place()
    if "SLIPWAY_MESSAGE_DIR" in os.environ or path.exists():
        path.write_bytes(fit(message | _stand_in))


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
        left = json.loads(path.read_text() or "{}") if path.exists() else {}
    except ValueError:
        return
    if isinstance(left, dict):
        leave({"rank": int(os.environ.get("RANK", own_index())), **left})


def place() -> Path:
    """Return the file for this process' message.

    One of several processes in a pod (see `slipway_trainer.launch`) has a file of its own in
    SLIPWAY_MESSAGE_DIR. Otherwise it is the container's, which the kubelet makes beforehand;
    outside a pod there is none. TERMINATION_LOG names another one.
    """
    if directory := os.environ.get("SLIPWAY_MESSAGE_DIR"):
        return Path(directory, f"{os.environ['RANK']}.json")
    return Path(os.environ.get("TERMINATION_LOG", "/dev/termination-log"))


def fit(message: dict[str, Any]) -> bytes:
    """Return `message` as JSON of at most LIMIT_BYTES.

    What goes first is told elsewhere or matters least: the outer lines of a long traceback, the
    artifacts that artifacts.json lists as well (it comes first and stays), the accuracies of early
    epochs; and then whatever is longest.
    """
    message = dict(message)
    while len(encoded := json.dumps(message).encode()) > LIMIT_BYTES:
        _shorten(message)
    return encoded


def _shorten(message: dict[str, Any]) -> None:
    """Take a bit away from `message`, of what it can spare best."""
    if len(message.get("traceback", "")) > LIMIT_BYTES // 2:
        message["traceback"] = message["traceback"][200:]
    elif len(artifacts := message.get("artifacts", {})) > 1:
        message["artifacts"] = dict(list(artifacts.items())[:-1])
    elif message.get("epoch_accuracies"):
        message["epoch_accuracies"] = message["epoch_accuracies"][1:]
    else:
        longest = max(message, key=lambda key: len(json.dumps(message[key])))
        value = message[longest]
        if isinstance(value, str) and len(value) > _SHORT:
            message[longest] = value[-_SHORT:] if longest == "traceback" else value[:_SHORT]
        else:
            del message[longest]


def _fail(events: Events, error: BaseException) -> int:
    """Report `error` on stderr, as an event and as the termination message; return the code."""
    if isinstance(error, SystemExit) and error.code in (0, None):
        return 0  # --help
    trace = "".join(traceback.format_exception(error))
    print(trace, file=sys.stderr, flush=True)
    text = f"{type(error).__name__}: {error}"
    events.emit("failed", error=text)
    leave({"rank": events.rank, "error": text, "traceback": trace})
    return EXIT_FAILED


def _end_on_sigterm(events: Events) -> None:
    """End within moments of a SIGTERM, also while a collective operation waits for other ranks.

    As process 1 of a container a program without a handler ignores SIGTERM, and a Python
    handler runs only once torch returns from C++. So a thread of its own waits for it.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def wait() -> None:
        signal.sigwait({signal.SIGTERM})
        faulthandler.dump_traceback(2)
        events.emit("terminated")
        leave({"rank": events.rank, "error": "ended by SIGTERM"})
        _end(EXIT_TERMINATED)

    threading.Thread(target=wait, name="sigterm", daemon=True).start()


def _end(code: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _without_rank(summary: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in summary.items() if key != "rank"}
