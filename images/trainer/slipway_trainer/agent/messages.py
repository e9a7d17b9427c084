"""The termination messages of a pod's processes, made into the one of its container."""

import json
import signal
from pathlib import Path
from typing import Any

from slipway.events import own_rank, warn
from slipway.reporting import numbers
from slipway.termination import read

_SIGNAL_BASE = 128
FIRST_FAILURE = "first-failure.json"
_TRACEBACK = "Traceback (most recent call last)"
_LAST_LINES = 30
NUMBERS = "metrics.json"
_NUMBERS_BYTES = 2**20


def merged(directory: Path, code: int, processes: int) -> dict[str, Any]:
    """Return what the processes that left their messages in `directory` have to say together.

    After a success that is what the lowest rank said, with the samples that all of them saw. When
    one of the `processes` doesn't tell how many it saw, their sum is not known.
    After a failure it is what `agent.processes` noted of the first rank that failed.
    """
    if code != 0:
        return read(directory / FIRST_FAILURE) or from_log("", code)
    ranks = sorted(int(path.stem) for path in directory.glob("[0-9]*.json"))
    left = [message for rank in ranks if (message := read(directory / f"{rank}.json"))]
    if not left:
        return {}
    counts = [message["samples_seen"] for message in left if "samples_seen" in message]
    seen = {"samples_seen": sum(counts)} if len(counts) == processes else {}
    return {key: said for key, said in left[0].items() if key != "samples_seen"} | seen


def with_numbers(message: dict[str, Any], directory: Path) -> dict[str, Any]:
    """Return `message` with the numbers that a program wrote into `NUMBERS`, a map of them.

    What it left in its message itself comes before them. A file that is no such map is passed over.
    """
    path = directory / NUMBERS
    if not path.is_file():
        return message
    try:
        found = json.loads(path.read_text()) if path.stat().st_size <= _NUMBERS_BYTES else None
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict):
        warn(f"{path} is left out: it is no map of numbers in JSON, of at most 1 MiB")
        return message
    told = message.get("metrics")
    metrics = {**numbers(found), **(told if isinstance(told, dict) else {})}
    return {"rank": own_rank(), **message, "metrics": metrics}


def from_log(text: str, code: int) -> dict[str, Any]:
    """Return the message for a program that ended with `code` and left none.

    Args:
        text: The end of its standard error: a traceback there is the error.
        code: As a shell has it, or Python.
    """
    if code == 0:
        return {}
    start = text.rfind(_TRACEBACK)
    if start < 0 or "was ended by" in ended(code):
        lines = text.splitlines()[-_LAST_LINES:]
        return {"error": f"the program {ended(code)}", "traceback": "\n".join(lines)}
    # torch puts "[rank1]: " in front of each line of it, where there is a process group.
    prefix = text[text.rfind("\n", 0, start) + 1 : start]
    lines = [line.removeprefix(prefix).rstrip() for line in text[start:].splitlines()]
    errors = [line for line in lines if line and not line.startswith(" ")]
    return {"error": errors[-1], "traceback": "\n".join(lines)}


def ended(code: int) -> str:
    """Say in a few words how a process ended, by its exit code as a shell has it, or Python."""
    number = -code if code < 0 else code - _SIGNAL_BASE
    try:
        return f"was ended by {signal.Signals(number).name}"
    except ValueError:
        return f"exited with code {code}"
