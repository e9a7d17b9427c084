"""Where a rank stood when it was stopped, from the stack that Python wrote to its log. Pure."""

import re
from collections.abc import Sequence

_FRAMES = 6
# https://docs.python.org/3/library/faulthandler.html
_BEGINS = re.compile(r"(?:Current thread|Thread) 0x[0-9a-f]+.*\(most recent call first\):$")
_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.*)$')
# Of gloo, whose calls return when all have taken part; DDP's are in the engine that runs backward.
_WAITS = re.compile(r"/torch/(?:distributed/|autograd/graph\.py)")


def waits_for_peers(frames: Sequence[str]) -> bool:
    """Return whether a rank with these frames may be waiting for others in a collective."""
    return any(_WAITS.search(frame) for frame in frames)


def stack_frames(lines: Sequence[str]) -> list[str]:
    """Return the innermost frames of the main thread in the last dump of a log, innermost first.

    A dump has a block for each thread, the main thread's last. Nothing without a dump.
    """
    starts = _starts(lines)
    frames: list[str] = []
    for line in lines[starts[-1] + 1 :] if starts else ():
        found = _FRAME.search(line)
        if found is None:
            break
        frames.append("{}:{} in {}".format(*found.groups()))
    return frames[:_FRAMES]


def before_stacks(lines: Sequence[str]) -> Sequence[str]:
    """Return what a log has before its first dump."""
    starts = _starts(lines)
    return lines[: starts[0]] if starts else lines


def _starts(lines: Sequence[str]) -> list[int]:
    return [number for number, line in enumerate(lines) if _BEGINS.search(line)]
