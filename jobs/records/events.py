"""Parse ranks' output: events, as docs/results.md lists them, and numbers in other lines."""

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
HELD = '"event": "held"'  # from a launcher that keeps its pod running after its program failed
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
    """Return the event at the end of a log line, or an empty map for any other line."""
    items = reported(line).items()
    # Any program may print JSON, so fields whose type differs from an event's are left out.
    return {key: value for key, value in items if type(value) in _TYPES.get(key, (type(value),))}


def events_of(log: Log, kinds: Sequence[str], tail: int | None = None) -> Iterator[Event]:
    """Yield events of these kinds from a container's log, or from its last `tail` bytes."""
    names = [f'"event":{space}"{kind}"' for kind in kinds for space in ("", " ")]
    for line in log.lines(tail):
        is_likely = any(name in line.text for name in names)
        if is_likely and (event := event_in(line.text)).get("event") in kinds:
            yield event


def numbers(values: object) -> dict[str, float]:
    """Return the numbers in a map, or an empty map for any other object."""
    every = values if isinstance(values, dict) else {}
    return {key: value for key, text in every.items() if (value := figure(text)) is not None}


def figure(value: object) -> float | None:
    """Return the value of a metric that a program reported, or None if it is not a number."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def added(
    result: RunResult,
    kept: Run,
    patterns: Mapping[str, str],
    warn: Callable[[str], None],
    again: Collection[str] = (),
) -> RunResult:
    """Return a result; if the run succeeded, add missing metrics that `patterns` find in its log.

    Metrics in `again` are searched for even if they are known. In pods, the launcher does all this;
    here it is needed for images without the launcher, and for new patterns. A pattern may take
    forever, so the search runs in its own process.
    """
    due = {name for name in patterns if name in again or result.figure(name) is None} - _PLACES
    log = _log(kept)
    if not result.succeeded or log is None or not due:
        return result
    sought = json.dumps({name: patterns[name] for name in patterns if name in due | _PLACES})
    command = (sys.executable, "-m", "slipway_trainer.agent.printed", sought, str(log.path))
    try:
        matches = json.loads(run(*command, cwd=CHECKOUT / "images/trainer", limit=_SECONDS))
    except CommandFailed as error:
        warn(f"the log in {log.path} was not searched for `metrics`: {error}")
        return result
    values = result.as_map()
    values |= {name: matches["metrics"].pop(name) for name in FIGURES & matches["metrics"].keys()}
    values |= {name: {**values.get(name, {}), **matches[name]} for name in matches if matches[name]}
    if accuracies := matches.get("epoch_metrics", {}).get("accuracy"):
        values["epoch_accuracies"] = accuracies
    return RunResult.from_map(values)


def likeness(kept: Run, *names: str) -> str:
    """Return the latest output like the first possible of these metrics, and the entry for it."""
    labels: dict[str, re.Match[str]] = {}
    log = _log(kept)
    for line in () if log is None else log.lines(4 * 2**20):
        if "event" in event_in(line.text):  # patterns are not searched for in events
            continue
        drawn = printable(line.text.replace("\r", "\n"))[-4096:]
        labels |= {_plain(match[1]): match for match in _LABELLED.finditer(drawn)}
    for name in names:
        plain = _plain(name)
        near = [each for each in labels if plain in each] or [
            each for each in labels if any(word in plain for word in re.findall("[^_]{3,}", each))
        ]
        label = likeliest(plain, near or labels) or next(reversed(near), None)
        if label is not None:
            return f"{labels[label][0]}: add `metrics: {{{name}: {pattern_of(labels[label])}}}`"
    return ""


def unreported(kept: Run, result: RunResult) -> str:
    """Return the likeness of an accuracy or a loss, or "" if the run failed or reported metrics."""
    if not result.succeeded or {"metrics", *FIGURES} & result.as_map().keys():
        return ""
    return likeness(kept, "accuracy", "loss")


def pattern_of(match: re.Match[str]) -> str:
    """Return the pattern for the number after a label, quoted for the stack file."""
    before = re.sub(r"(\\[ \t]){2,}", " +", re.escape(match[1] + match[2]))
    before = before.replace("\\ ", " ").replace("\\-", "-").replace("'", "''")
    number = "[0-9.]+" if re.fullmatch(r"[\d.]+", match[3]) else "[-+.0-9eE]+"
    return f"'{before}({number})'"


def _log(kept: Run) -> Log | None:
    """Return the log of replica 0's latest container."""
    logs = [log for log in kept.logs() if log.replica == 0]
    return max(logs, key=lambda log: log.path.stat().st_mtime, default=None)


def _plain(label: str) -> str:
    return re.sub(r"[\W_]+", "_", label).strip("_").lower()
