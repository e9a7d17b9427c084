"""Records why a process ends: the exception that nothing caught, and the user's line it came from.

`sitecustomize.py` has every Python of the trainer's image do so, from the exception itself: what
else a program prints does not hide it. `in_text` reads a traceback, where that is all that is left.
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
# Of a thread, a destructor or a log's handler.
_ENDS_NOTHING = re.compile(
    r"(?m)^.*(?:Exception in thread|Exception ignored (?:in|on|while)|Logging error ---).*\n"
    rf"{_TRACE}(?:\n.*(?:During handling of|The above exception).*\n\n{_TRACE})*"
)
_RANK, _BORDER = re.compile(r"(?m)^\[rank\d+\]: ?"), re.compile(r"(?m)^ +[|+] ?")
"""Before the lines of a traceback: by torch, and of an exception group."""
FRAME = re.compile(r'(?m)^\s+File "(.+)", line (\d+)')
# Types of torch.distributed, gloo's source in an error that it throws, and what its Python calls
# report as a plain RuntimeError, as they do a call with wrong arguments.
_OF_TORCH = re.compile(r"torch\.distributed\.([\w.]+\.)?(Dist|Rendezvous)\w*Error")
_OF_GLOO = re.compile(r"\[[^\]\n]*\bgloo/[^\]\n]*:\d+\]")
_OF_ITS_CALLS = re.compile(r"(?i)monitoredBarrier|tim(ed|e)[ -]?out|connection|socket|\bpeer")
# By these types a rank also reports that it can't listen, or what only it did wrong.
_OWN = re.compile(
    r"EADDRINUSE|EADDRNOTAVAIL|EACCES|failed to (listen|bind)|ncclInvalid|ncclUnhandledCudaError"
)
_OF_A_CHILD = re.compile(
    r"\w*(RemoteTraceback:|: Caught \w+ in .+\nOriginal Traceback|: -- Process \d+ terminated)"
)
"""Of a pool, a DataLoader and mp.spawn, whose text is a child's traceback."""
_ON_BEHALF = re.compile("CalledProcessError|ChildFailedError|Process(Exited|Raised)Exception")
"""What a process raises because another one failed, whose own record says more."""
# Also in a traceback from a container, as another machine reads it.
_LIBRARIES = re.compile(r"^<|/(site|dist)-packages/|/lib/python3[.\d]*/|/torch/|^/opt/slipway/")
_OURS = (f"{Path(os.__file__).parent}/", f"{Path(__file__).resolve().parents[1]}/")


def record(error: BaseException | None, text: str = "") -> None:
    """Leave `described` where the launcher or the kubelet finds it; a thread's ends nothing.

    Of several processes that share the place, the one counts that failed by itself.
    """
    is_agent = "/slipway_trainer/agent/" in str(getattr(sys.modules["__main__"], "__file__", ""))
    if is_agent or threading.current_thread() is not threading.main_thread():
        return
    found = described(error, text)
    # https://docs.pytorch.org/docs/2.14/elastic/errors.html
    if (torchs := os.environ.get("TORCHELASTIC_ERROR_FILE")) and not Path(torchs).exists():
        more = {"py_callstack": found.get("traceback", ""), "timestamp": str(int(time.time()))}
        told = {"message": {"message": found["error"], "extraInfo": more}}
        with suppress(OSError):
            Path(torchs).write_text(json.dumps(told))
    directory = os.environ.get("SLIPWAY_MESSAGE_DIR")
    path = Path(directory, f"failed-{own_rank()}.json") if directory else container_log()
    if path is None:
        return
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = read(path)
        follows = found["from"] == PEER or _ON_BEHALF.fullmatch(type(error).__name__)
        if known.get("from") != PROGRAM or not follows:
            own = {"pid": os.getpid()} if directory else {"rank": own_rank()}
            whole = {**known, **own, **found}
            path.write_text(json.dumps(whole if directory else fit(whole)))


def described(error: BaseException | None, text: str = "") -> dict[str, Any]:
    """Return what is known of an exception, or of the `text` that ended a program.

    `error` is its type and message, `at` the innermost line in the user's own files, `causes` what
    led to it, and `from` whether it reports a lost peer or comes from the program.
    """
    chain = _chain(error)
    texts = [in_text(_text(each)) if _OF_A_CHILD.match(_named(each)) else None for each in chain]
    remote = next(filter(None, texts), {"from": PROGRAM})
    grouped = error is not None and len(_grouped(error)) > 0
    shown = ": ".join(map(_named, chain[: 2 if grouped else 1]))
    name = remote.get("error", "").partition(":")[0].rpartition(".")[2]
    # As its child has it: an error that formats its message would do so twice.
    if any(texts[:1]) or name == type(error).__name__:
        shown = remote["error"]
    # A group's own line is where it waited for what failed.
    raised = chain[1:] + chain[:1] if grouped else chain
    frames = [line for each in raised for line in reversed(_frames(each))]
    here = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_stack(None)]
    at = remote.get("at") or _own_line([*here, *frames] if text else [*frames, *here])
    trace = () if error is None else traceback.TracebackException.from_exception(error).format()
    found = {
        "error": (text or shown)[:_LONGEST_ERROR],
        "at": at,
        "causes": [_named(each) for each, said in zip(chain[1:], texts[1:]) if said is None],
        "from": PEER if _is_peers(error) else remote["from"],
        "traceback": "".join(trace)[-_LONGEST_TRACE:],
    }
    return {name: value for name, value in found.items() if value}


def relevant(text: str) -> str:
    """Return what a process printed last, without tracebacks that ended nothing, nor borders."""
    text = _RANK.sub("", text[-_LONGEST_TRACE:])
    text = _BORDER.sub("", text) if "Exception Group Traceback" in text else text
    return _ENDS_NOTHING.sub("", text)


def in_text(text: str) -> dict[str, Any] | None:
    """Return the last traceback in what a process printed, as `described`; None without one."""
    if (trace := _LAST_TRACE.match(relevant(text))) is None:
        return None
    error = trace[1].splitlines()[-1].rstrip()
    frames = [(file, int(line)) for file, line in FRAME.findall(trace[1])]
    is_peers = _reports_a_peer([error.partition(":")[0]], error, frames)
    at = _own_line(reversed(frames))
    found = {"error": error, "from": PEER if is_peers else PROGRAM, "traceback": trace[1].rstrip()}
    return found if at is None else {**found, "at": at}


def _is_peers(error: BaseException | None, depth: int = 0) -> bool:
    """Return whether an exception, or what led to it, reports a lost peer; all of a group must."""
    if error is None or depth > _MOST_CAUSES:
        return False
    if grouped := _grouped(error):
        return all(_is_peers(each, depth + 1) for each in grouped)
    types = [f"{each.__module__}.{each.__name__}" for each in type(error).__mro__]
    names = [each.removeprefix("builtins.") for each in types]
    is_one = _reports_a_peer(names, _text(error), _frames(error))
    return is_one or _is_peers(_before(error), depth + 1)


def _reports_a_peer(names: list[str], text: str, frames: list[tuple[str, int]]) -> bool:
    """Return whether that is an error of torch.distributed, of gloo, NCCL or the store."""
    if any(map(_OF_TORCH.fullmatch, names)):
        return _OWN.search(text) is None
    is_of_call = bool(frames) and "/torch/distributed/" in frames[-1][0]
    is_lost = _OF_GLOO.search(text) or (is_of_call and _OF_ITS_CALLS.search(text))
    return "RuntimeError" in names and bool(is_lost)


def _chain(error: BaseException | None) -> list[BaseException]:
    """Return an exception, the first that it groups, and what led to them, outermost first."""
    found: list[BaseException] = []
    while error is not None and len(found) <= _MOST_CAUSES:
        found.append(error)
        error = min(_grouped(error), key=_is_peers, default=_before(error))
    return found


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
    except Exception:  # noqa: BLE001 - it has a `__str__` of its own
        return "its message can't be shown"


def _frames(error: BaseException) -> list[tuple[str, int]]:
    walked = traceback.walk_tb(error.__traceback__)
    found = [(frame.f_code.co_filename, line) for frame, line in walked]
    if isinstance(error, SyntaxError) and error.filename is not None:
        found.append((error.filename, error.lineno or 1))
    return found


def _own_line(frames: Iterable[tuple[str, int]]) -> str | None:
    """Return the first of these lines that is in a file of the user's."""
    for file, line in frames:
        if _LIBRARIES.search(file) is None and not file.startswith(_OURS):
            beside = f"{sys.path[0]}/"
            return f"{file[len(beside) :] if file.startswith(beside) else Path(file).name}:{line}"
    return None
