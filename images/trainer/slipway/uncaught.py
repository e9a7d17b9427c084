"""Records why a process ends: the exception that nothing caught, and the user's line it came from.

`sitecustomize.py` has every Python of the trainer's image do so. The record is of the exception
itself, so whatever else a program prints does not hide it. Where a traceback is all that is left,
as of a process whose parent raises its error again, `in_text` reads that.
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
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from slipway.events import own_rank
from slipway.termination import container_log, fit

PEER, PROGRAM = "peer", "program"
_MOST_CAUSES, _LONGEST_ERROR, _LONGEST_TRACE = 5, 2000, 32 * 1024
_TRACEBACK = "Traceback (most recent call last)"
_FRAME = re.compile(r'\s+File "(.+)", line (\d+)')
_BORDER = re.compile(r"^ *[|+] ?")
"""Before each line of an exception group."""
_CHAINED = re.compile(r"During handling of the above|The above exception was the direct cause")
_ENDS_NOTHING = re.compile(r"Exception in thread|Exception ignored (in|on|while)|Logging error ---")
"""The line before the traceback of a thread, a destructor or a log's handler."""
# Types of torch.distributed, gloo's source in an error that it throws, and what its Python calls
# report as a plain RuntimeError, as they do a call with wrong arguments.
_OF_TORCH = re.compile(r"torch\.distributed\.([\w.]+\.)?(Dist|Rendezvous)\w*Error")
_OF_GLOO = re.compile(r"\[[^\]\n]*\bgloo/[^\]\n]*:\d+\]")
_OF_ITS_CALLS = re.compile(r"(?i)monitoredBarrier|tim(ed|e)[ -]?out|connection|socket|\bpeer")
# By these types a rank also reports that it can't listen, or what only it did wrong.
_OWN = re.compile(
    r"EADDRINUSE|EADDRNOTAVAIL|EACCES|failed to (listen|bind)|ncclInvalid|ncclUnhandledCudaError"
)
_ON_BEHALF = frozenset({
    "CalledProcessError", "ChildFailedError", "ProcessExitedException", "ProcessRaisedException",
})  # fmt: skip
"""Raised by a process because another one failed, whose own record says more."""
_LIBRARIES = re.compile(r"^<|/(site|dist)-packages/|/torch/")
_OURS = (f"{Path(os.__file__).parent}/", f"{Path(__file__).resolve().parents[1]}/")
"""Python's own files and Slipway's."""


def record(error: BaseException | None, text: str = "") -> None:
    """Leave `described` where the launcher or the kubelet finds it; a thread's ends nothing.

    Of several processes that share the place, the one counts that failed by itself.
    """
    is_agent = "/slipway_trainer/agent/" in str(getattr(sys.modules["__main__"], "__file__", ""))
    if is_agent or threading.current_thread() is not threading.main_thread():
        return
    found = described(error, text)
    _tell_torchrun(found)
    directory = os.environ.get("SLIPWAY_MESSAGE_DIR")
    path = Path(directory, f"failed-{own_rank()}.json") if directory else container_log()
    if path is None:
        return
    with path.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        known = _json_map(file.read())
        follows = found["from"] == PEER or type(error).__name__ in _ON_BEHALF
        if known.get("from") == PROGRAM and follows:
            return
        file.truncate(0)
        whole = {**known, "rank": own_rank(), **found}
        file.write(json.dumps({**whole, "pid": os.getpid()} if directory else fit(whole)))


def described(error: BaseException | None, text: str = "") -> dict[str, Any]:
    """Return what is known of an exception, as a termination message has it.

    Args:
        error: None where the program ended itself, by a text.
        text: What it ended itself with, which it says instead of the exception.

    Returns:
        `error` is its type and message, `at` the innermost line in the user's own files, `causes`
        what led to it, and `from` whether it reports a lost peer or comes from the program.
    """
    chain = [*_chain(error)]
    # DataLoader, mp.spawn and pools raise what a child of theirs left: its traceback, as text.
    texts = [_text(each) for each in chain]
    remote = next(filter(None, map(in_text, texts)), None)
    shown = remote["error"] if remote is not None and _TRACEBACK in texts[0] else _named(chain)
    lines = [_own_line(reversed(_frames(each))) for each in chain]
    here = ((frame.f_code.co_filename, line) for frame, line in traceback.walk_stack(None))
    at = (remote or {}).get("at") or next(filter(None, lines), None) or _own_line(here)
    causes = [_named([each]) for each, said in zip(chain[1:], texts[1:]) if _TRACEBACK not in said]
    is_peers = _is_from_peer(error) or (remote is not None and remote["from"] == PEER)
    trace = []
    if error is not None:
        trace = traceback.format_exception(type(error), error, error.__traceback__)
    return {
        "error": (text or shown)[:_LONGEST_ERROR],
        **({"at": at} if at is not None else {}),
        **({"causes": causes[:_MOST_CAUSES]} if causes else {}),
        "from": PEER if is_peers else PROGRAM,
        "traceback": "".join(trace)[-_LONGEST_TRACE:],
    }


def in_text(text: str) -> dict[str, Any] | None:
    """Return the last traceback in what a process printed, as `described`; None without one.

    Those of threads and destructors ended nothing, and what follows one is no part of it.
    """
    lines = text[-_LONGEST_TRACE:].splitlines()
    found: list[str] = []
    before, ends_nothing = "", False
    for number, line in enumerate(lines):
        if (begins := line.find(_TRACEBACK)) >= 0:
            if _CHAINED.search(before) is None:
                ends_nothing = _ENDS_NOTHING.search(before) is not None
            # torch puts "[rank1]: " in front of each line of it, where there is a process group.
            block = [each.removeprefix(line[:begins]) for each in lines[number:]]
            if "Exception Group" in line:
                block = [_BORDER.sub("", each) for each in block]
            ends = (n for n, each in enumerate(block) if n and each.strip() and each[0] != " ")
            if (end := next(ends, None)) is not None and not ends_nothing:
                found = [each.rstrip() for each in block[: end + 1]]
        before = line if line.strip() else before
    if not found:
        return None
    frames = [(each[1], int(each[2])) for each in map(_FRAME.match, found) if each is not None]
    at = _own_line(reversed(frames))
    is_peers = _reports_a_peer([found[-1].partition(":")[0]], found[-1], frames)
    origin = PEER if is_peers else PROGRAM
    known = {"error": found[-1], "from": origin, "traceback": "\n".join(found)}
    return known if at is None else {**known, "at": at}


def _is_from_peer(error: BaseException | None, depth: int = 0) -> bool:
    """Return whether an exception, or what led to it, reports a lost peer; all of a group must."""
    if error is None or depth > _MOST_CAUSES:
        return False
    if grouped := _grouped(error):
        return all(_is_from_peer(each, depth + 1) for each in grouped)
    types = [f"{each.__module__}.{each.__name__}" for each in type(error).__mro__]
    names = [each.removeprefix("builtins.") for each in types]
    return _reports_a_peer(names, _text(error), _frames(error)) or _is_from_peer(
        _before(error), depth + 1
    )


def _reports_a_peer(names: list[str], text: str, frames: list[tuple[str, int]]) -> bool:
    """Return whether that is an error of torch.distributed, of gloo, NCCL or the store."""
    if _OWN.search(text) is not None:
        return False
    if any(map(_OF_TORCH.fullmatch, names)):
        return True
    is_of_call = bool(frames) and "/torch/distributed/" in frames[-1][0]
    is_lost = _OF_GLOO.search(text) or (is_of_call and _OF_ITS_CALLS.search(text))
    return "RuntimeError" in names and bool(is_lost)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception, the first that it groups, and what led to them, outermost first."""
    for _ in range(_MOST_CAUSES + 1):
        if error is None:
            return
        yield error
        error = next(iter(sorted(_grouped(error), key=_is_from_peer)), None) or _before(error)


def _grouped(error: BaseException) -> list[BaseException]:
    grouped = getattr(error, "exceptions", ())
    every = grouped if isinstance(grouped, tuple) else ()
    return [each for each in every if isinstance(each, BaseException)]


def _before(error: BaseException) -> BaseException | None:
    return error.__cause__ if error.__suppress_context__ else error.__context__


def _named(chain: list[BaseException]) -> str:
    """Return the type and the message of the first, and of what it groups."""
    count = 2 if chain and _grouped(chain[0]) else 1
    pairs = [(type(each).__name__, _text(each).strip()) for each in chain[:count]]
    return ": ".join(part for pair in pairs for part in pair if part)


def _text(error: BaseException) -> str:
    try:
        return str(error)[-_LONGEST_TRACE:]
    except Exception:  # noqa: BLE001 - it has a `__str__` of its own
        return "its message can't be shown"


def _frames(error: BaseException) -> list[tuple[str, int]]:
    walked = traceback.walk_tb(error.__traceback__)
    return [(frame.f_code.co_filename, line) for frame, line in walked]


def _own_line(frames: Iterable[tuple[str, int]]) -> str | None:
    """Return the first of these lines that is in a file of the user's."""
    for file, line in frames:
        if _LIBRARIES.search(file) is None and not file.startswith(_OURS):
            beside = os.path.join(sys.path[0], "")  # noqa: PTH118 - it is a prefix
            name = file[len(beside) :] if file.startswith(beside) else Path(file).name
            return f"{name}:{line}"
    return None


def _tell_torchrun(found: dict[str, Any]) -> None:
    """Write the file that torchrun reads, unless the program did.

    https://docs.pytorch.org/docs/2.6/elastic/errors.html
    """
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if path and not Path(path).exists():
        more = {"py_callstack": found["traceback"], "timestamp": str(int(time.time()))}
        told = {"message": {"message": found["error"], "extraInfo": more}}
        Path(path).write_text(json.dumps(told))


def _json_map(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
