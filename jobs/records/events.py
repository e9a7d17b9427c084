"""What ranks print: events, as docs/results.md has them, and numbers in any other line."""

import json
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from core.paths import CHECKOUT
from core.problem import likeliest
from core.process import CommandFailed, printable, run
from jobs.records.archive import Log, Run
from jobs.result import FIGURES, RunResult
from slipway.events import reported

Event = dict[str, Any]
HELD = '"event": "held"'  # of a launcher whose program has failed, and whose pod stays
_TYPES = {
    **dict.fromkeys(("event", "time"), (str,)),
    **dict.fromkeys(("rank", "epochs", "steps", "samples"), (int,)),
    **dict.fromkeys(("epoch", "step"), (int, float)),
    **dict.fromkeys(("metrics", "seconds_in", "summary", "terminated"), (dict,)),
}
_SECONDS = 60.0
_PLACES = {"epoch", "step"}
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_WORD = r"[A-Za-z_][\w./-]{0,40}"
_LABELLED = re.compile(
    rf"(?<![\w./-])({_WORD}(?: {_WORD}){{0,2}})([\"')\]]*[ \t]*(?:[:=]|is|of)?[ \t]*)({_NUMBER})"
)


def event_in(line: str) -> dict[str, Any]:
    """Return the event that a line of a log ends with; an empty map for any other line."""
    found = reported(line).items()
    # Any program may print JSON: a field of another type than an event's is left out.
    return {key: value for key, value in found if type(value) in _TYPES.get(key, (type(value),))}


def events_of(log: Log, kinds: Sequence[str], tail: int | None = None) -> Iterator[Event]:
    """Yield the events of some kinds in a container's log, or in `tail` bytes at its end."""
    names = [f'"event":{space}"{kind}"' for kind in kinds for space in ("", " ")]
    for line in log.lines(tail):
        is_likely = any(name in line.text for name in names)
        if is_likely and (event := event_in(line.text)).get("event") in kinds:
            yield event


def numbers(found: object) -> dict[str, float]:
    """Return what of a map is numbers; nothing of what is no map."""
    every = found if isinstance(found, dict) else {}
    return {key: value for key, text in every.items() if (value := figure(text)) is not None}


def figure(value: object) -> float | None:
    """Return a figure that a user's program reported; None when it is none."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def added(
    result: RunResult,
    kept: Run,
    patterns: Mapping[str, str],
    warn: Callable[[str], None],
    anew: Collection[str] = (),
) -> RunResult:
    """Return a success with what a job's `metrics` find of what it lacks, and of those in `anew`.

    In pods the launcher has looked: this is for images without it, and for patterns that come after
    the run. It takes a process of its own, as a search may never end.
    """
    due = {name for name in patterns if name in anew or result.figure(name) is None} - _PLACES
    log = _log(kept)
    if not result.succeeded or log is None or not due:
        return result
    sought = json.dumps({name: patterns[name] for name in patterns if name in due | _PLACES})
    command = (sys.executable, "-m", "slipway_trainer.agent.printed", sought, str(log.path))
    try:
        found = json.loads(run(*command, cwd=CHECKOUT / "images/trainer", limit=_SECONDS))
    except CommandFailed as error:
        warn(f"the log in {log.path} was not searched for `metrics`: {error}")
        return result
    known = result.as_map()
    known |= {name: found["metrics"].pop(name) for name in FIGURES & found["metrics"].keys()}
    known |= {name: {**known.get(name, {}), **found[name]} for name in found if found[name]}
    if accuracies := found.get("epoch_metrics", {}).get("accuracy"):
        known["epoch_accuracies"] = accuracies
    return RunResult.from_map(known)


def likeness(kept: Run, name: str) -> str:
    """Return what was printed last that a figure's name may mean, and what to add to have it."""
    seen: dict[str, re.Match[str]] = {}
    log = _log(kept)
    for line in () if log is None else log.lines(4 * 2**20):
        if "event" in event_in(line.text):  # in which no pattern is looked for
            continue
        drawn = printable(line.text.replace("\r", "\n"))[-4096:]
        seen |= {_plain(match[1]): match for match in _LABELLED.finditer(drawn)}
    wanted = _plain(name)
    near = [each for each in seen if wanted in each] or [each for each in seen if each in wanted]
    label = likeliest(wanted, near or seen) or next(iter(near), None)
    if label is None:
        return ""
    return f"{seen[label][0]}: add `metrics: {{{name}: {pattern_of(seen[label])}}}`"


def pattern_of(found: re.Match[str]) -> str:
    """Return the pattern for the number after a label, as the stack's file has it."""
    before = re.sub(r"(\\[ \t]){2,}", " +", re.escape(found[1] + found[2]))
    before = before.replace("\\ ", " ").replace("\\-", "-").replace("'", "''")
    number = "[0-9.]+" if re.fullmatch(r"[\d.]+", found[3]) else "[-+.0-9eE]+"
    return f"'{before}({number})'"


def _log(kept: Run) -> Log | None:
    """Return the log of rank 0's last start."""
    logs = [log for log in kept.logs() if log.replica == 0]
    return max(logs, key=lambda log: log.path.stat().st_mtime, default=None)


def _plain(label: str) -> str:
    return re.sub(r"[\W_]+", "_", label).strip("_").lower()
