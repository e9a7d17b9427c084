"""Starts ranks inside the image and notes how each ended. Runs there, on the image's Python.

    python3 ranks.py PLAN.json

The plan is a list with each rank's `program`, its `args`, the `signal` that it is sent, and when:
so many seconds (`delay`) after so many events of a step (`steps`). Beside it come, for rank 0,
0.out, 0.err and 0.termination, and for all of them ends.json, whose times are in seconds since the
start. A rank that was stopped with SIGSTOP is not waited for.
"""

import json
import math
import os
import signal
import socket
import sys
import time
from pathlib import Path

import forks  # type: ignore[import-not-found]  # inside the image it lies beside this

LIMIT_SECONDS = 600


def main(plan: Path) -> None:
    """Start every rank, send the signals that the plan asks for, and wait for all ends."""
    here, ranks = plan.parent, json.loads(plan.read_text())
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    began = time.monotonic()
    running = {}
    for number, rank in enumerate(ranks):
        (here / f"{number}.termination").touch()
        running[number] = forks.start(
            [*rank["program"], *rank["args"]],
            {
                **os.environ,
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "WORLD_SIZE": str(len(ranks)),
                "RANK": str(number),
                "LOCAL_WORLD_SIZE": str(len(ranks)),
                "SLIPWAY_OUTPUT_DIR": str(here / "outputs"),
                "TERMINATION_LOG": str(here / f"{number}.termination"),
            },
            here / str(number),
        )
    to_signal = {number for number, rank in enumerate(ranks) if rank["signal"]}
    stopped = {number for number, rank in enumerate(ranks) if rank["signal"] == signal.SIGSTOP}
    stepped: dict[int, float] = {}
    signalled: dict[int, float] = {}
    ends: dict[int, dict[str, float | None]] = {}
    while running.keys() - stopped and time.monotonic() - began < LIMIT_SECONDS:
        for number in list(to_signal):
            output = here / f"{number}.out"
            steps = output.read_text().count('"event": "step"') if output.exists() else 0
            if number not in stepped and steps >= ranks[number]["steps"]:
                stepped[number] = time.monotonic()
            due = stepped.get(number, math.inf) + ranks[number]["delay"]
            if time.monotonic() >= due:
                forks.send(running[number], ranks[number]["signal"])
                signalled[number] = time.monotonic() - began
                to_signal.remove(number)
        for number in list(running):
            code = running[number].exitcode
            if code is not None:
                ends[number] = {
                    "code": code,
                    "seconds": time.monotonic() - began,
                    "signalled": signalled.get(number),
                }
                del running[number]
        time.sleep(0.05)
    for process in running.values():
        process.kill()
    (here / "ends.json").write_text(json.dumps(ends))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
