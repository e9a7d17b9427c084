"""What a rank reports while it works: JSON lines on its standard output, and its numbers."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import wraps
from typing import Any, TypeVar

MOST_EPOCHS = 1000
"""Of each number the latest are kept."""
SPOOL_BYTES = 256 * 2**20
"""Of events that are not tracked yet: a pod whose disk is full would be evicted."""
Work = TypeVar("Work", bound=Callable[..., None])


def own_rank(environment: Mapping[str, str] = os.environ) -> int:
    """Return this process' rank; the training operator gives an elastic worker its index alone."""
    rank = environment.get("RANK", "")
    return int(rank) if rank.isdecimal() else own_index(environment)


def own_index(environment: Mapping[str, str] = os.environ) -> int:
    """Return which worker this is, as far as its name alone says; 0 otherwise."""
    pod = re.search(r"-worker-(\d+)$", environment.get("HOSTNAME", ""))
    told = environment.get("SLIPWAY_ELASTIC_INDEX", pod[1] if pod is not None else "0")
    return int(told) if told.isdecimal() else 0


@dataclass(frozen=True)
class Events:
    """The event stream of one rank."""

    rank: int

    def emit(self, event: str, **values: object) -> None:
        """Write one event with the rank and the time (ISO 8601, UTC) as one JSON line."""
        time = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        fields = {"event": event, "rank": self.rank, "time": time, **values}
        line = json.dumps(fields, default=str) + "\n"
        # In one piece: the ranks of one pod share its standard output, which may be unbuffered.
        sys.stdout.write(line)
        sys.stdout.flush()
        if (spool := os.environ.get("SLIPWAY_EVENTS")) is not None:
            append(spool, line)


def append(spool: str | os.PathLike[str], line: str) -> None:
    """Append a line to the file that a pod's tracking reads; without room for it, it is left out.

    Tracking must not fail a job: a file that is missing, or a full disk, is no error.
    """
    with suppress(OSError):
        # Without O_CREAT, and in one write: several ranks append to the same file.
        file = os.open(spool, os.O_WRONLY | os.O_APPEND)
        try:
            if os.fstat(file).st_size < SPOOL_BYTES:
                os.write(file, line.encode())
        finally:
            os.close(file)


def harmless(work: Work) -> Work:
    """Return `work`, which writes a line to standard error where it would raise."""

    @wraps(work)
    def guarded(*args: Any, **options: Any) -> None:
        try:
            work(*args, **options)
        except Exception as error:  # noqa: BLE001 - whatever it is, training goes on
            warn(f"{work.__name__} failed with {type(error).__name__}: {error}")

    return guarded  # type: ignore[return-value]  # it has the same arguments


def warn(text: str) -> None:
    """Write a line to standard error, where there is one."""
    with suppress(AttributeError, OSError, ValueError):
        print(f"slipway: {text}; the training goes on", file=sys.stderr, flush=True)


@dataclass
class History:
    """The numbers that a program has reported so far."""

    latest: dict[str, float] = field(default_factory=dict)
    """Each number's latest value, by name."""
    epochs: dict[str, dict[int, float]] = field(default_factory=dict)
    """Each number's values by epoch, by name."""

    def add(self, values: Mapping[str, Any], epoch: int | None = None) -> dict[str, float]:
        """Take in numbers, of an epoch where one is given; return those that are numbers."""
        found = numbers(values)
        self.latest.update(found)
        for name, value in found.items() if epoch is not None else ():
            of_epochs = self.epochs.setdefault(name, {})
            of_epochs[int(epoch)] = value  # type: ignore[arg-type]
            while len(of_epochs) > MOST_EPOCHS:
                del of_epochs[min(of_epochs)]
        return found

    def told(self) -> dict[str, Any]:
        """Return `metrics` and `epoch_metrics` as a termination message has them."""
        by_epoch = {
            name: [value for _, value in sorted(values.items())]
            for name, values in self.epochs.items()
        }
        return {"metrics": dict(self.latest), **({"epoch_metrics": by_epoch} if by_epoch else {})}


def numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """Return those of `values` that are finite numbers, as Python's; warn of the others.

    What has an `item`, as tensors and numpy's arrays of a single element, is what that returns.
    """
    found = {}
    for name, value in values.items():
        number = _number(value)
        if number is None:
            warn(f"{name}={value!r:.60} is left out: it is no finite number")
        else:
            found[str(name)] = number
    return found


def _number(value: Any) -> float | None:
    try:
        plain = value.item() if hasattr(value, "item") else value
        is_number = isinstance(plain, (int, float)) and not isinstance(plain, bool)
        return plain if is_number and math.isfinite(plain) else None
    except Exception:  # noqa: BLE001 - a tensor of several elements, or what only looks like one
        return None
