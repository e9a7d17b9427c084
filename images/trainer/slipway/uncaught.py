"""Record why a process failed: the uncaught exception, and the line of user code that raised it.

`sitecustomize.py` calls `record` with the exception itself, in every Python process in the trainer
image, so other output can't hide it. As a last resort, `in_text` reads a printed traceback.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import sys
import threading
import time
import traceback
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from slipway.events import own_rank
from slipway.termination import container_log, fit, read

PEER, PROGRAM = "peer", "program"
_MOST_CAUSES, _LONGEST_ERROR, _LONGEST_TRACE = 5, 2000, 32 * 1024
_TRACE = r"(?:.*Traceback \(most recent call last\):\n(?:[ \t].*\n)*\S.*\n?)"
_LAST_TRACE = re.compile(rf"(?s:.*)^({_TRACE})", re.MULTILINE)
# Tracebacks from a thread, a destructor or a log handler.
_ENDS_NOTHING = re.compile(
    r"(?m)^.*(?:Exception in thread|Exception ignored (?:in|on|while)|Logging error ---).*\n"
    rf"{_TRACE}(?:\n.*(?:During handling of|The above exception).*\n\n{_TRACE})*"
)
_RANK, _BORDER = re.compile(r"(?m)^\[rank\d+\]: ?"), re.compile(r"(?m)^ +[|+] ?")
"""Prefixes on traceback lines, from torch and from exception groups."""
FRAME = re.compile(r'(?m)^\s+File "(.+)", line (\d+)')
# Error types in torch.distributed, gloo's source file in its errors, and texts in plain
# RuntimeErrors from Python calls, which are also raised for wrong arguments.
_OF_TORCH = re.compile(r"torch\.distributed\.([\w.]+\.)?(Dist|Rendezvous)\w*Error")
_OF_GLOO = re.compile(r"\[[^\]\n]*\bgloo/[^\]\n]*:\d+\]")
_OF_ITS_CALLS = re.compile(r"(?i)monitoredBarrier|tim(ed|e)[ -]?out|connection|socket|\bpeer")
# Such errors may also be the rank's own fault: it can't listen, or made a mistake.
_OWN = re.compile(
    r"EADDRINUSE|EADDRNOTAVAIL|EACCES|failed to (listen|bind)|ncclInvalid|ncclUnhandledCudaError"
)
_OF_A_CHILD = re.compile(
    r"\w*(RemoteTraceback:|: Caught \w+ in .+\nOriginal Traceback|: -- Process \d+ terminated)"
)
"""Matches errors from a pool, a DataLoader or mp.spawn that quote a child process's traceback."""
_ON_BEHALF = re.compile("CalledProcessError|ChildFailedError|Process(Exited|Raised)Exception")
"""Matches errors that only report another process's failure; that process's record is better."""
# These also match a container's traceback that is read on another machine.
_LIBRARIES = re.compile(r"^<|/(site|dist)-packages/|/lib/python3[.\d]*/|/torch/|^/opt/slipway/")
_OURS = (f"{Path(os.__file__).parent}/", f"{Path(__file__).resolve().parents[1]}/")


def record(error: BaseException | None, text: str = "") -> None:
    """Write details about an error to a file for the launcher or the kubelet.

    Errors in threads other than the main thread are ignored. If several processes share the file,
    a process that failed by itself has precedence over one that lost a peer.
    """
    is_agent = "/slipway_trainer/agent/" in str(getattr(sys.modules["__main__"], "__file__", ""))
    if is_agent or threading.current_thread() is not threading.main_thread():
        return
    details = described(error, text)
    # https://docs.pytorch.org/docs/2.14/elastic/errors.html
    if (torchs := os.environ.get("TORCHELASTIC_ERROR_FILE")) and not Path(torchs).exists():
        more = {"py_callstack": details.get("traceback", ""), "timestamp": str(int(time.time()))}
        document = {"message": {"message": details["error"], "extraInfo": more}}
        with suppress(OSError):
            Path(torchs).write_text(json.dumps(document))
    directory = os.environ.get("SLIPWAY_MESSAGE_DIR")
    path = Path(directory, f"failed-{own_rank()}.json") if directory else container_log()
    if path is None:
        return
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = read(path)
        follows = details["from"] == PEER or _ON_BEHALF.fullmatch(type(error).__name__)
        if before.get("from") != PROGRAM or not follows:
            own = {"pid": os.getpid()} if directory else {"rank": own_rank()}
            message = {**before, **own, **details}
            path.write_text(json.dumps(message if directory else fit(message)))


def described(error: BaseException | None, text: str = "") -> dict[str, Any]:
    """Return details about an exception, or about the `text` that a program exited with.

    `error` is its type and message, `at` the innermost line in the user's own files, and `causes`
    lists the exceptions that caused it. `from` is PEER if it reports a lost peer, else PROGRAM.
    """
    chain = _chain(error)
    texts = [in_text(_text(each)) if _OF_A_CHILD.match(_named(each)) else None for each in chain]
    remote = next(filter(None, texts), {"from": PROGRAM})
    grouped = error is not None and len(_grouped(error)) > 0
    shown = ": ".join(map(_named, chain[: 2 if grouped else 1]))
    name = remote.get("error", "").partition(":")[0].rpartition(".")[2]
    # Use the child's text: an error that formats its message would do so twice.
    if any(texts[:1]) or name == type(error).__name__:
        shown = remote["error"]
    # A group's own line only waits for the tasks that failed.
    raised = chain[1:] + chain[:1] if grouped else chain
    frames = [line for each in raised for line in reversed(_frames(each))]
    here = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_stack(None)]
    at = remote.get("at") or _own_line([*here, *frames] if text else [*frames, *here])
    trace = () if error is None else traceback.TracebackException.from_exception(error).format()
    details = {
        "error": (text or shown)[:_LONGEST_ERROR],
        "at": at,
        "causes": [_named(each) for each, child in zip(chain[1:], texts[1:]) if child is None],
        "from": PEER if _is_peers(error) else remote["from"],
        "traceback": "".join(trace)[-_LONGEST_TRACE:],
    }
    return {name: value for name, value in details.items() if value}


def relevant(text: str) -> str:
    """Return the tail of a process's output, without borders and tracebacks of non-fatal errors."""
    text = _RANK.sub("", text[-_LONGEST_TRACE:])
    text = _BORDER.sub("", text) if "Exception Group Traceback" in text else text
    return _ENDS_NOTHING.sub("", text)


def in_text(text: str) -> dict[str, Any] | None:
    """Return details, as `described` does, about the last traceback in a process's output, if any.

    Handles output from processes without `sitecustomize.py`.
    """
    if (trace := _LAST_TRACE.match(relevant(text))) is None:
        return None
    error = trace[1].splitlines()[-1].rstrip()
    frames = [(file, int(line)) for file, line in FRAME.findall(trace[1])]
    is_peers = _reports_a_peer([error.partition(":")[0]], error, frames)
    at = _own_line(reversed(frames))
    record = {"error": error, "from": PEER if is_peers else PROGRAM, "traceback": trace[1].rstrip()}
    return record if at is None else {**record, "at": at}


def _is_peers(error: BaseException | None, depth: int = 0) -> bool:
    """Return whether an exception, or its cause, reports a lost peer.

    An exception group does so if all its exceptions do.
    """
    if error is None or depth > _MOST_CAUSES:
        return False
    if grouped := _grouped(error):
        return all(_is_peers(each, depth + 1) for each in grouped)
    types = [f"{each.__module__}.{each.__name__}" for each in type(error).__mro__]
    names = [each.removeprefix("builtins.") for each in types]
    is_one = _reports_a_peer(names, _text(error), _frames(error))
    return is_one or _is_peers(_before(error), depth + 1)


def _reports_a_peer(names: list[str], text: str, frames: list[tuple[str, int]]) -> bool:
    """Return whether an error comes from torch.distributed or gloo, and so reports a lost peer."""
    if any(map(_OF_TORCH.fullmatch, names)):
        return _OWN.search(text) is None
    is_of_call = bool(frames) and "/torch/distributed/" in frames[-1][0]
    is_lost = _OF_GLOO.search(text) or (is_of_call and _OF_ITS_CALLS.search(text))
    return "RuntimeError" in names and bool(is_lost)


def _chain(error: BaseException | None) -> list[BaseException]:
    """Return an exception and its causes, outermost first; one exception represents its group."""
    chain: list[BaseException] = []
    while error is not None and len(chain) <= _MOST_CAUSES:
        chain.append(error)
        error = min(_grouped(error), key=_is_peers, default=_before(error))
    return chain


def _grouped(error: BaseException) -> list[BaseException]:
    grouped = getattr(error, "exceptions", ())
    every = grouped if isinstance(grouped, tuple) else ()
    return [each for each in every if isinstance(each, BaseException)]


def _before(error: BaseException) -> BaseException | None:
    return error.__cause__ if error.__suppress_context__ else error.__context__


def _named(error: BaseException) -> str:
    return ": ".join(filter(None, (type(error).__name__, _text(error).strip())))


def _text(error: BaseException) -> str:
    try:
        return str(error)[-_LONGEST_TRACE:]
    except Exception:  # noqa: BLE001 - its `__str__` may raise anything
        return "its message can't be shown"


def _frames(error: BaseException) -> list[tuple[str, int]]:
    walked = traceback.walk_tb(error.__traceback__)
    frames = [(frame.f_code.co_filename, line) for frame, line in walked]
    if isinstance(error, SyntaxError) and error.filename is not None:
        frames.append((error.filename, error.lineno or 1))
    return frames


def _own_line(frames: Iterable[tuple[str, int]]) -> str | None:
    """Return the first of these frames in one of the user's files, as `file:line`, or None."""
    for file, line in frames:
        if _LIBRARIES.search(file) is None and not file.startswith(_OURS):
            beside = f"{sys.path[0]}/"
            return f"{file[len(beside) :] if file.startswith(beside) else Path(file).name}:{line}"
    return None
