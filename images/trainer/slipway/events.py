"""What a rank tells the outside while it works: JSON lines on its standard output."""

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
        line = {"event": event, "rank": self.rank, "time": time, **values}
        # In one piece: the ranks of one pod share its standard output, which may be unbuffered.
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


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
