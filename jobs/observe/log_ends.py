"""The last lines in a run's relevant logs, and the stack traces that stopped ranks printed."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jobs.observe.failures import Failure
from jobs.observe.replica import Replica
from jobs.observe.run_state import RunState
from jobs.records.archive import Run
from jobs.records.events import HELD, Event, events_of

_STACKS = 20  # number of ranks whose stack traces are shown; if more hang, they look alike
_LONGEST = 1000  # characters of a line, since the ledger holds a whole result in 1 MiB
# https://docs.python.org/3/library/faulthandler.html
_BEGINS = re.compile(r"(?:Current thread|Thread) 0x[0-9a-f]+.*\(most recent call first\):$")
# Frames that wait in gloo, whose calls return once all ranks took part, or in DDP's backward pass.
_WAITS = re.compile(r"/torch/(?:distributed/|autograd/graph\.py)")


@dataclass
class LogEnds:
    """The last output of a run's containers: recorded logs, or else termination messages."""

    run: RunState
    kept: Run

    def relevant(self) -> list[str]:
        """Return the lines of the log that best explains how a run ended.

        If exactly one replica is hanging or leaves its GPUs idle, this is that replica's log.
        Otherwise it is the log of the container that failed first, or of replica 0.
        """
        suspected = self.silent() or self.run.idle or self.run.stalled or ()
        failed = self.run.cause or self.run.failed_init
        if len(suspected) != 1 and failed is not None:
            return self._of(failed)
        shown = suspected[0] if len(suspected) == 1 else self.run.replicas.get(0)
        return [] if shown is None else before_stacks(self._now(shown))

    def before(self) -> list[str]:
        """Return the log of the failed replica's previous container, if it failed, too."""
        cause = self.run.cause
        if cause is None:
            return []
        same = [each for each in self.run.failures if each.replica.number == cause.replica.number]
        before = [each for each in same if each.finished < cause.finished]
        return self._of(before[-1]) if before else []

    def stacks(self) -> dict[str, list[str]]:
        """Return the stack traces that hanging ranks printed when stopped, keyed by rank name."""
        return {replica.ranks: frames for replica, frames in self._traces() if frames}

    def summary(self, number: int) -> dict[str, Any]:
        """Return a replica's full summary from its log, which contains it if it exceeds 4 KB."""
        log = self.kept.log(number, self.run.replicas[number].container_id)
        events = events_of(log, ["summary"])
        summaries: list[Event] = [each["summary"] for each in events if "summary" in each]
        return summaries[-1] if summaries else {}

    def silent(self) -> list[Replica]:
        """Return the replicas that did not respond to their peers.

        The peers' failures reveal these replicas. If a run hangs without a failure, the silent one
        is the only replica whose stack trace is outside torch, or that printed none when it was
        stopped, while all others wait in torch. On GPUs, stack traces can't show this: a call to a
        collective returns before it has finished.
        """
        gpus = any(each.gpus for each in self.run.replicas.values())
        is_shown = self.run.all_started and not self.run.failures and not gpus
        traces = self._traces() if is_shown else []
        apart = [each for each, frames in traces if not any(map(_WAITS.search, frames))]
        return apart if len(apart) == 1 < len(traces) else self.run.silent

    def _traces(self) -> list[tuple[Replica, list[str]]]:
        return [(each, stack_frames(self._now(each))) for each in self.run.hanging[:_STACKS]]

    def _now(self, replica: Replica) -> list[str]:
        """Return the lines logged so far by a replica's latest container."""
        log = self.kept.log(replica.number, replica.container_id)
        return [line.text[:_LONGEST] for line in log.lines()]

    def _of(self, failed: Failure) -> list[str]:
        """Return a failed container's recorded log, or else its termination message's lines."""
        log = self.kept.log(failed.replica.number, failed.exit.container_id)
        end = failed.exit.message.splitlines() if failed.exit.error is None else []
        return [line.text[:_LONGEST] for line in log.lines() if HELD not in line.text] or end


def stack_frames(lines: Sequence[str]) -> list[str]:
    """Return up to six of the main thread's frames in a log's last stack dump, innermost first."""
    starts = _starts(lines)
    frames: list[str] = []
    for line in lines[starts[-1] + 1 :] if starts else ():
        match = re.search(r'  File "(.*)", line (\d+) in (.*)$', line)
        if match is None:
            break
        frames.append("{}:{} in {}".format(*match.groups()))
    return frames[:6]


def before_stacks(lines: list[str]) -> list[str]:
    """Return the lines of a log before its first stack dump."""
    starts = _starts(lines)
    return lines[: starts[0]] if starts else lines


def _starts(lines: Sequence[str]) -> list[int]:
    return [number for number, line in enumerate(lines) if _BEGINS.search(line)]
