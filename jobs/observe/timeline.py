"""What of a run belongs into its timeline: conditions, containers, failures, events. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from jobs.observe.pytorchjob import conditions
from jobs.observe.run_state import RunState
from jobs.records.timeline import Entry, Kind, entry
from jobs.result import End

_MOST_EVENTS = 500


def of_end(end: End, at: str, events: Iterable[Mapping[str, Any]]) -> list[Entry]:
    """Return how a run ended, after Kubernetes' latest events about it."""
    found = sorted(map(_of_event, events), key=lambda each: each["time"])
    return [*found[-_MOST_EVENTS:], entry(at, "end", end.state, end.reason)]


def of_run(run: RunState) -> Iterator[Entry]:
    """Yield what has been seen of a run so far."""
    job = f"PyTorchJob {run.job['metadata'].get('name')}"
    for each in conditions(run.job):
        text = f"{each['type']}: {each.get('message') or each.get('reason') or ''}"
        yield entry(each.get("lastTransitionTime"), "condition", job, text)
    for replica in run.replicas.values():
        if replica.running:
            text = f"started again ({replica.restarts})" if replica.restarts else "started"
            yield entry(replica.running_since, "container", str(replica), text)
        for ended in replica.exits:
            if ended.code == 0:
                yield entry(ended.finished, "container", str(replica), str(ended))
    for failed in run.failures:
        yield entry(failed.finished, "failure", str(failed.replica), str(failed))
    for lost in filter(None, (run.disruption, run.lost_node)):
        yield entry(lost.at, "failure", job, lost.text)


def _of_event(event: Mapping[str, Any]) -> Entry:
    about, count = event["involvedObject"], event.get("count") or 1
    times = ("lastTimestamp", "eventTime", "firstTimestamp")
    at = next((event[name] for name in times if event.get(name)), None)
    message = str(event.get("message", "")).strip()
    text = f"{event.get('reason')}: {message}" + (f" ({count} times)" if count > 1 else "")
    kind: Kind = "warning" if event.get("type") == "Warning" else "event"
    return entry(at, kind, f"{about.get('kind')} {about.get('name')}", text)
