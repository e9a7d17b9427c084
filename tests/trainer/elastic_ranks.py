"""Starts elastic workers inside the image, ends some of them, and notes how each process ended.

    python3 elastic_ranks.py PLAN.json

The plan has `program` (what python3 is given), `workers`, `host` (the address of all), `nodes`
(PET_NNODES) and `blows`: each has a `worker`, a `signal`, the `step` that some worker has to tell
of first, and after how many seconds a replacement starts (`replace`, or null); one that was stopped
is then continued. Beside the plan come <worker>.<life>.out, .err and .termination, and ends.json
with the exit codes and the times of the blows.
"""

import json
import os
import random
import re
import signal
import socket
import sys
import time
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

import forks  # type: ignore[import-not-found]  # inside the image it lies beside this

LIMIT_SECONDS = float(os.environ.get("LIMIT_SECONDS", "600"))
_STEP = re.compile(r'"event": "step".*?"step": (\d+)')


class Job:
    """The processes of a job; a worker's replacements are its further lives."""

    def __init__(self, plan: dict[str, Any], directory: Path) -> None:
        self.plan, self.directory = plan, directory
        self.peers = ",".join(f"{plan['host']}:{port}" for port in _free_ports(plan["workers"]))
        self.processes: dict[tuple[int, int], ForkProcess] = {}
        self.ends: dict[str, Any] = {"codes": {}, "blows": []}

    def start(self, worker: int) -> None:
        """Start a worker, or its replacement."""
        life = sum(each == worker for each, _ in self.processes)
        path = self.directory / f"{worker}.{life}"
        path.with_suffix(f".{life}.termination").touch()
        outputs = self.directory / f"outputs-{worker}.{life}"
        outputs.mkdir()
        self.processes[worker, life] = forks.start(
            self.plan["program"],
            {
                **os.environ,
                "OMP_NUM_THREADS": "1",
                "PYTHONFAULTHANDLER": "1",
                "SLIPWAY_ELASTIC_PEERS": self.peers,
                "SLIPWAY_ELASTIC_INDEX": str(worker),
                "PET_NNODES": self.plan["nodes"],
                **self.plan.get("env", {}),
                "SLIPWAY_OUTPUT_DIR": str(outputs),
                "TERMINATION_LOG": str(path.with_suffix(f".{life}.termination")),
            },
            path,
        )

    def step(self) -> int:
        """Return the furthest step that a worker told of."""
        told = [0]
        for path in self.directory.glob("*.out"):
            found = _STEP.findall(path.read_text())
            told += map(int, found[-1:])
        return max(told)

    def strike(self, blow: dict[str, Any]) -> None:
        """Send a worker's newest life its signal."""
        process = self.processes[max(key for key in self.processes if key[0] == blow["worker"])]
        forks.send(process, blow["signal"])
        self.ends["blows"].append({**blow, "time": time.time()})

    def reap(self) -> list[tuple[int, int]]:
        """Note who has ended; return who is still to be waited for."""
        left = []
        stopped = {b["worker"] for b in self.ends["blows"] if b["signal"] == signal.SIGSTOP}
        for (worker, life), process in self.processes.items():
            code = process.exitcode
            if code is None:
                left += [(worker, life)] if worker not in stopped else []
            elif f"{worker}.{life}" not in self.ends["codes"]:
                self.ends["codes"][f"{worker}.{life}"] = code
        return left


def main(path: Path) -> None:
    """Carry out the plan."""
    plan = json.loads(path.read_text())
    job = Job(plan, path.parent)
    for worker in range(plan["workers"]):
        job.start(worker)
    blows = list(plan["blows"])
    replacements: list[tuple[float, dict[str, Any]]] = []
    began = time.monotonic()
    while (job.reap() or replacements) and time.monotonic() - began < LIMIT_SECONDS:
        while blows and job.step() >= blows[0]["step"]:
            blow = blows.pop(0)
            job.strike(blow)
            if blow["replace"] is not None:
                replacements.append((time.monotonic() + blow["replace"], blow))
        for due, blow in list(replacements):
            if time.monotonic() >= due:
                replacements.remove((due, blow))
                if blow["signal"] == signal.SIGSTOP:
                    job.strike({**blow, "signal": signal.SIGCONT})
                else:
                    job.start(blow["worker"])
        time.sleep(0.05)
    for process in job.processes.values():
        # With PYTHONFAULTHANDLER it says where it hangs.
        forks.send(process, signal.SIGABRT)
    time.sleep(1)
    for process in job.processes.values():
        process.kill()
    (path.parent / "ends.json").write_text(json.dumps(job.ends))


def _free_ports(count: int) -> list[int]:
    """Return ports that nobody uses, none of them one that the kernel gives to clients."""
    free: list[int] = []
    while len(free) < count:
        port = random.randint(20000, 30000)  # noqa: S311
        with socket.socket() as trial:
            if port not in free and trial.connect_ex(("127.0.0.1", port)) != 0:
                free.append(port)
    return free


if __name__ == "__main__":
    main(Path(sys.argv[1]))
