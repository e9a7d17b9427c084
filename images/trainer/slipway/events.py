"""A rank's events, written as JSON lines to its standard output."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import wraps
from typing import Any, TypeVar

from slipway import drill

SPOOL_BYTES = 256 * 2**20
"""Maximum bytes in the file that passes events to tracking: a pod that fills a disk is evicted."""
_DEEPEST = 32
_JSON = json.JSONDecoder(parse_int=lambda each: int(each) if len(each) < 16 else float(each))
Work = TypeVar("Work", bound=Callable[..., None])
_in_group: list[int] = []  # the last value of `own_rank`, for when the group is destroyed


def own_rank() -> int:
    """Return this process's rank in the process group of all ranks, or else as in `given_rank`.

    They differ if the program starts its own processes, as with mp.spawn: all have the pod's RANK.
    """
    dist: Any = sys.modules.get("torch.distributed")
    is_grouped = "RANK" in os.environ and getattr(dist, "is_initialized", bool)()
    if is_grouped and dist.get_world_size() >= int(os.environ.get("WORLD_SIZE") or 1):
        _in_group[:] = [dist.get_rank()]
    return _in_group[0] if _in_group else given_rank()


def given_rank(environment: Mapping[str, str] = os.environ) -> int:
    """Return the rank in the environment; an elastic worker has none, so this is its index."""
    pod = re.search(r"-worker-(\d+)$", environment.get("HOSTNAME", ""))
    index = environment.get("SLIPWAY_ELASTIC_INDEX", pod[1] if pod is not None else "0")
    rank = environment.get("RANK") or index
    return int(rank) if rank.isdecimal() else 0


@dataclass(frozen=True)
class Events:
    """One rank's event stream."""

    rank: int

    def emit(self, event: str, **values: object) -> None:
        """Write one event, with the rank and a timestamp (ISO 8601, UTC), as one JSON line."""
        time = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        fields = {"event": event, "rank": self.rank, "time": time, **values}
        line = json.dumps(fields, default=str) + "\n"
        # A single write, as a pod's ranks share its standard output, which may be unbuffered.
        sys.stdout.write(line)
        sys.stdout.flush()
        if (spool := os.environ.get("SLIPWAY_EVENTS")) is not None:
            append(spool, line)
        if drill.DRILL in os.environ:
            drill.strike(fields, self.emit)

    def warning(self, text: str) -> None:
        """Report a problem that does not end the training."""
        self.emit("warning", warning=text)


def reported(line: str) -> dict[str, Any]:
    """Return the event in a line of output, even after a progress bar; empty if there is none."""
    begins = line.find('{"event": ')
    return json_map(line) or (json_map(line[begins:]) if begins > 0 else {})


def json_map(text: str) -> dict[str, Any]:
    """Return the JSON object in `text`, or an empty map if it is invalid or nested too deeply.

    Integers with more than 15 digits become floats; lone surrogates, as in file names, are escaped.
    """
    # Most log lines are plain text, and most events are flat and contain no escapes.
    if not text.lstrip().startswith("{"):
        return {}
    is_plain = "\\u" not in text and text.count("{") + text.count("[") < _DEEPEST
    try:
        decoded: dict[str, Any] = _JSON.decode(text)
        return decoded if is_plain else _plain(decoded, _DEEPEST)
    except (ValueError, RecursionError):
        return {}


def _plain(value: Any, depth: int) -> Any:
    if depth == 0:
        raise ValueError("nested too deeply")
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, list):
        return [_plain(each, depth - 1) for each in value]
    if isinstance(value, dict):
        return {_plain(key, depth): _plain(each, depth - 1) for key, each in value.items()}
    return value


def append(spool: str | os.PathLike[str], line: str) -> None:
    """Append a line to the file that a pod's tracking reads; errors are ignored."""
    with suppress(OSError):
        # No O_CREAT, and only one write, as several ranks append to the same file.
        descriptor = os.open(spool, os.O_WRONLY | os.O_APPEND)
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            if os.fstat(descriptor).st_size < SPOOL_BYTES:
                file.write(line.encode())


def harmless(work: Work) -> Work:
    """Wrap `work` so that it writes a warning to standard error instead of raising an exception."""

    @wraps(work)
    def guarded(*args: Any, **options: Any) -> None:
        try:
            work(*args, **options)
        except Exception as error:  # noqa: BLE001 - no error may stop the training
            warn(f"{work.__name__} failed with {type(error).__name__}: {error}")

    return guarded  # type: ignore[return-value]  # it has the same arguments


def warn(text: str) -> None:
    """Write a warning to standard error; do nothing if standard error is closed."""
    with suppress(AttributeError, OSError, ValueError):
        print(f"slipway: {text}; training continues", file=sys.stderr, flush=True)
