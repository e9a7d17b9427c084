"""A result that is no success, as a person wants to read it. Pure."""

from collections.abc import Mapping
from typing import Any


def explain(name: str, result: Mapping[str, Any]) -> str:
    """Return the whole story of a result that is no success, in several lines."""
    told = result.get("failure") or {}
    lines = [f"job {name} ended {result['state']}: {result['reason']}"]
    if told.get("error"):
        lines.append(f"its error: {told['error']}")
    if told.get("memory_limit") and told.get("out_of_memory"):
        lines.append(f"its memory limit: {told['memory_limit']}")
    if told.get("disruption"):
        lines.append(f"what had happened: {told['disruption']}")
    whose = (
        f"container {told['container']}" if "container" in told else f"rank {told.get('rank', 0)}"
    )
    if count := told.get("followers"):
        lines.append(f"{count} other {'replica' if count == 1 else 'replicas'} failed after it")
    if told.get("previous_log"):
        lines.append(f"the end of {whose}'s log before it was started again:")
        lines += [f"    {line}" for line in told["previous_log"]]
    if told.get("log"):
        lines += [f"the end of {whose}'s log:", *(f"    {line}" for line in told["log"])]
    for ranks, frames in (told.get("stacks") or {}).items():
        lines += [f"where {ranks} stood:", *(f"    {frame}" for frame in frames)]
    if told.get("events"):
        lines += ["warning events:", *(f"    {event}" for event in told["events"])]
    if told.get("advice"):
        lines.append(f"what to do: {told['advice']}")
    return "\n".join(lines)
