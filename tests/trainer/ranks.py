"""Starts processes inside the image, ends some of them, and notes how each ended.

    python3 ranks.py PLAN.json

The plan has, for each rank or worker, what python3 is given (`programs`) and its variables
(`env`), and `blows`: each has a `worker`, a `signal`, the `step` that some process has to tell of
first, the seconds from then on (`delay`), and after how many more a replacement starts (`replace`,
or null); one that was stopped is then continued, or else not waited for. Beside the plan come
WORKER.LIFE.out, .err and .termination, and ends.json.
"""

import json
import os
import re
import signal
import sys
import time
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

import forks  # type: ignore[import-not-found]  # inside the image it lies beside this

LIMIT_SECONDS = 600
_STEP = re.compile(r'"event": "step".*?"step": (\d+)')


class Job:
    """The processes of a job; a worker's replacements are its further lives."""

    def __init__(self, plan: dict[str, Any], directory: Path) -> None:
        self.plan, self.directory = plan, directory
        self.processes: dict[tuple[int, int], ForkProcess] = {}
        self.signalled: dict[str, float] = {}
        self.ends: dict[str, dict[str, float | None]] = {}
        self.began = time.monotonic()

    def start(self, worker: int) -> None:
        """Start a worker, or its replacement."""
        life = sum(each == worker for each, _ in self.processes)
        path, outputs = (self.directory / f"{each}{worker}.{life}" for each in ("", "outputs-"))
        outputs.mkdir(exist_ok=True)
        log = path.with_suffix(f".{life}.termination")
        log.write_text("")
        own = {"SLIPWAY_OUTPUT_DIR": str(outputs), "TERMINATION_LOG": str(log)}
        env = {**os.environ, "PYTHONFAULTHANDLER": "1", **self.plan["env"][worker], **own}
        self.processes[worker, life] = forks.start(self.plan["programs"][worker], env, path)

    def step(self) -> int:
        """Return the furthest step that a process told of, -1 if none did."""
        told = [-1]
        for path in self.directory.glob("*.out"):
            told += map(int, _STEP.findall(path.read_text())[-1:])
        return max(told)

    def strike(self, worker: int, number: int) -> None:
        """Send a worker's newest life a signal."""
        _, life = max(key for key in self.processes if key[0] == worker)
        forks.send(self.processes[worker, life], number)
        self.signalled[f"{worker}.{life}"] = time.monotonic() - self.began

    def is_over(self) -> bool:
        """Note what has ended, and return whether all have that are waited for."""
        stopped = {
            each["worker"] for each in self.plan["blows"] if each["signal"] == signal.SIGSTOP
        }
        is_over = True
        for (worker, life), process in self.processes.items():
            name = f"{worker}.{life}"
            if process.exitcode is None:
                is_over &= worker in stopped
            elif name not in self.ends:
                seconds = time.monotonic() - self.began
                signalled = self.signalled.get(name)
                self.ends[name] = {
                    "code": process.exitcode, "seconds": seconds, "signalled": signalled
                }  # fmt: skip
        return is_over


def main(path: Path) -> None:
    """Carry out the plan."""
    plan = json.loads(path.read_text())
    job = Job(plan, path.parent)
    for old in path.parent.glob("*.out"):
        old.unlink()
    for worker in range(len(plan["programs"])):
        job.start(worker)
    blows, due = list(plan["blows"]), list[tuple[float, int, int | None]]()
    while (not job.is_over() or due) and time.monotonic() - job.began < LIMIT_SECONDS:
        step, now = job.step() if blows else -1, time.monotonic()
        for blow in [each for each in blows if step >= each["step"]]:
            blows.remove(blow)
            due.append((now + blow["delay"], blow["worker"], blow["signal"]))
            if blow["replace"] is not None:
                again = signal.SIGCONT if blow["signal"] == signal.SIGSTOP else None
                due.append((now + blow["delay"] + blow["replace"], blow["worker"], again))
        for each in [each for each in due if now >= each[0]]:
            due.remove(each)
            _, worker, number = each
            if number is None:
                job.start(worker)
            else:
                job.strike(worker, number)
        time.sleep(0.05)
    for process in job.processes.values():
        forks.send(process, signal.SIGABRT)  # with PYTHONFAULTHANDLER it says where it hangs
    time.sleep(1 if any(each.exitcode is None for each in job.processes.values()) else 0)
    for process in job.processes.values():
        process.kill()
    (path.parent / "ends.json").write_text(json.dumps(job.ends))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
