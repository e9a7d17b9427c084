"""The end of each log that matters, and in it where a rank stood when it was stopped."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jobs.observe.failures import Failure
from jobs.observe.replica import Replica
from jobs.observe.run_state import RunState
from jobs.records.archive import Run
from jobs.records.events import HELD, Event, events_of

_STACKS = 20  # of so many ranks: when all of 1,000 hang, the rest are alike
# https://docs.python.org/3/library/faulthandler.html
_BEGINS = re.compile(r"(?:Current thread|Thread) 0x[0-9a-f]+.*\(most recent call first\):$")
# Of gloo, whose calls return when all have taken part; DDP's are in the engine that runs backward.
_WAITS = re.compile(r"/torch/(?:distributed/|autograd/graph\.py)")


@dataclass
class LogEnds:
    """What the containers of a run printed last: what is kept, otherwise their messages' text."""

    run: RunState
    kept: Run

    def relevant(self) -> list[str]:
        """Return the log that matters: of the cause's container, otherwise of replica 0.

        Where a single replica hangs or leaves its GPUs idle, it is that one's.
        """
        suspected = self.silent() or self.run.idle or self.run.stalled or ()
        failed = self.run.cause or self.run.failed_init
        if len(suspected) != 1 and failed is not None:
            return self._of(failed)
        shown = suspected[0] if len(suspected) == 1 else self.run.replicas.get(0)
        return [] if shown is None else before_stacks(self._now(shown))

    def before(self) -> list[str]:
        """Return the log of the start before in the replica that failed, if that failed, too."""
        cause = self.run.cause
        if cause is None:
            return []
        same = [each for each in self.run.failures if each.replica.number == cause.replica.number]
        before = [each for each in same if each.finished < cause.finished]
        return self._of(before[-1]) if before else []

    def stacks(self) -> dict[str, list[str]]:
        """Return where ranks that hang stood when they were stopped, by name; some don't report."""
        return {replica.ranks: frames for replica, frames in self._stood()}

    def summary(self, number: int) -> dict[str, Any]:
        """Return a replica's whole message, which 4 KB did not hold, by its log; else nothing."""
        log = self.kept.log(number, self.run.replicas[number].container_id)
        events = events_of(log, ["summary"])
        found: list[Event] = [each["summary"] for each in events if "summary" in each]
        return found[-1] if found else {}

    def silent(self) -> list[Replica]:
        """Return who did not answer its peers.

        By their failures; of a run that got nowhere without any, the only one that stood
        outside of torch while others waited in it. On GPUs a stack does not show that: a
        collective's call returns before its end.
        """
        gpus = any(each.gpus for each in self.run.replicas.values())
        is_shown = self.run.all_started and not self.run.failures and not gpus
        stood = self._stood() if is_shown else []
        apart = [each for each, frames in stood if not any(map(_WAITS.search, frames))]
        return apart if len(apart) == 1 < len(stood) else self.run.silent

    def _stood(self) -> list[tuple[Replica, list[str]]]:
        found = ((each, stack_frames(self._now(each))) for each in self.run.hanging[:_STACKS])
        return [(replica, frames) for replica, frames in found if frames]

    def _now(self, replica: Replica) -> list[str]:
        """Return the log of a replica's latest container, to its present end."""
        return [line.text for line in self.kept.log(replica.number, replica.container_id).lines()]

    def _of(self, failed: Failure) -> list[str]:
        """Return a container's log, or the end of it, where its termination message is that."""
        log = self.kept.log(failed.replica.number, failed.exit.container_id)
        end = failed.exit.message.splitlines() if failed.exit.error is None else []
        return [line.text for line in log.lines() if HELD not in line.text] or end


def stack_frames(lines: Sequence[str]) -> list[str]:
    """Return the main thread's innermost frames, which end a log's last dump, innermost first."""
    starts = _starts(lines)
    frames: list[str] = []
    for line in lines[starts[-1] + 1 :] if starts else ():
        found = re.search(r'  File "(.*)", line (\d+) in (.*)$', line)
        if found is None:
            break
        frames.append("{}:{} in {}".format(*found.groups()))
    return frames[:6]


def before_stacks(lines: list[str]) -> list[str]:
    """Return what a log has before its first dump."""
    starts = _starts(lines)
    return lines[: starts[0]] if starts else lines


def _starts(lines: Sequence[str]) -> list[int]:
    return [number for number, line in enumerate(lines) if _BEGINS.search(line)]
