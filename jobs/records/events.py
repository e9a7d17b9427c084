"""The events that ranks print, as JSON at the end of a line: docs/results.md has them."""

from collections.abc import Iterator, Sequence
from typing import Any

from jobs.records.archive import Log
from slipway.events import reported

Event = dict[str, Any]
_TYPES = {
    **dict.fromkeys(("event", "time"), (str,)),
    **dict.fromkeys(("rank", "epochs", "steps", "samples"), (int,)),
    **dict.fromkeys(("epoch", "step"), (int, float)),
    **dict.fromkeys(("metrics", "seconds_in", "summary"), (dict,)),
}


def event_in(line: str) -> dict[str, Any]:
    """Return the event that a line of a log ends with; an empty map for any other line.

    Any program may print JSON: a field of another type than an event's is left out.
    """
    found = reported(line).items()
    return {key: value for key, value in found if type(value) in _TYPES.get(key, (type(value),))}


def events_of(log: Log, kinds: Sequence[str] = (), tail: int | None = None) -> Iterator[Event]:
    """Yield the events in a container's log, or those of some kinds, or those at its end."""
    names = [f'"event":{space}"{kind}"' for kind in kinds for space in ("", " ")]
    for line in log.lines(tail):
        if not names or any(name in line.text for name in names):
            event = event_in(line.text)
            if "event" in event and (not kinds or event["event"] in kinds):
                yield event


def numbers(found: object) -> dict[str, float]:
    """Return what of a map is numbers; nothing of what is no map."""
    every = found if isinstance(found, dict) else {}
    return {key: value for key, text in every.items() if (value := figure(text)) is not None}


def figure(value: object) -> float | None:
    """Return a figure that a user's program reported; None when it is none."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
