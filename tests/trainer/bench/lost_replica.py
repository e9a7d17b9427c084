"""Kill one of three replicas at 40 % of an epoch of MNIST: with torchft, and with Slipway.

    python3.13 -m venv VENV
    VENV/bin/pip install torch==2.14.1 torchvision==0.29.1 torchft-nightly==2026.10.26 numpy==2.5.5
    PYTHONPATH=images/trainer VENV/bin/python -m tests.trainer.bench.lost_replica DATA WAY …

DATA is a folder with MNIST's four files, unpacked. A WAY is slipway, or torchft:ORDER, by which a
replica chooses its batches: `loader` goes through torchft's DistributedSampler as its example does,
`step` takes from that share the batch of the manager's step, `quorum` the next ones in one order of
all samples, by the manager's batches_committed. torchft:ORDER:8:1 has timeouts of 8 s, and of 1 s
for heartbeats, in the place of torchft's own. All else is the same.
"""

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from tests.trainer.bench.replica import BATCH, EPOCH, PORT, REPLICAS

_AT_STEP = int(0.4 * EPOCH / (REPLICAS * BATCH))
_LIMIT_SECONDS = 240
_HEADS = ("way", "killed", "replaced after", "next step", "longest pause", "duration",
          "accuracy", "samples once", "lost", "more than once", "exit codes")  # fmt: skip
Notes = list[dict[str, Any]]


def measure(data: str, way: str, killed: int | None, wait: float | None) -> list[object]:
    """Train once, and return the table's row of it."""
    starts = [(each, 0) for each in range(REPLICAS)]
    if killed is not None and wait is not None:
        starts.append((killed, 1))
    with tempfile.TemporaryDirectory() as folder, _lighthouse(way):
        place, struck, end = Path(folder), 0.0, time.time() + _LIMIT_SECONDS
        processes = [_start(place, data, way, *each) for each in starts]
        while not all(_notes(place / f"{replica}.{life}.out") for replica, life in starts):
            time.sleep(0.1)
        _go(processes[:REPLICAS])
        replacements = processes[REPLICAS:]
        while any(each.poll() is None for each in processes) and time.time() < end:
            time.sleep(0.02)
            if killed is not None and not struck and _furthest(place) >= _AT_STEP:
                processes[killed].kill()
                struck = time.time()
            if struck and time.time() > struck + (wait or 0):
                _go(replacements)
                replacements = []
        ends = [each.poll() for each in processes]
        for each in processes:
            each.kill()
        lives = [_notes(path) for path in sorted(place.glob("*.out"))]
    steps = sorted(each["time"] for notes in lives for each in notes if each["note"] == "made")
    after = min((each - struck for each in steps if each > struck > 0), default=math.nan)
    pause = max(later - earlier for earlier, later in pairwise(steps))
    found = sorted({each["accuracy"] for notes in lives for each in notes if "accuracy" in each})
    times = _in_model(lives)
    once = sum(count == 1 for count in times.values())
    accuracies = " ".join(f"{each:.4f}" for each in found)
    times_taken = [f"{each:.2f}" for each in (after, pause, steps[-1] - steps[0])]
    return [way, killed, wait, *times_taken, accuracies, once, EPOCH - len(times),
            len(times) - once, ends]  # fmt: skip


def _in_model(lives: list[Notes]) -> Counter[int]:
    """Return how often each sample is in the model."""
    sizes = {each["step"]: each["size"] for notes in lives for each in notes if "size" in each}
    times: Counter[int] = Counter()
    for notes in lives:
        for begun, made in pairwise(notes):
            if made["note"] == "made" and made["counts"]:
                times.update(begun["indices"])
        last = max((each["step"] for each in notes if "step" in each), default=-2)
        if notes[-1]["note"] == "begun" and sizes.get(last + 1) == REPLICAS:
            # It was killed after the others had its gradients.
            times.update(notes[-1]["indices"])
    return times


@contextmanager
def _lighthouse(way: str) -> Iterator[None]:
    """Run torchft's lighthouse meanwhile, where a way needs it."""
    _, *options = way.split(":")
    command = [str(Path(sys.executable).with_name("torchft_lighthouse")), "--min_replicas=1"]
    for name, seconds in zip(("join", "heartbeat"), options[1:], strict=False):
        command.append(f"--{name}_timeout_ms={float(seconds) * 1000:.0f}")
    if not options:
        yield
        return
    server = subprocess.Popen([*command, f"--bind=[::]:{PORT}"], stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        server.kill()
        server.wait()


def _start(place: Path, data: str, way: str, replica: int, life: int) -> subprocess.Popen[bytes]:
    """Start a replica, which writes to `place`."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        "PET_NNODES": f"1:{REPLICAS}",
        "SLIPWAY_ELASTIC_PEERS": ",".join(
            f"127.0.0.1:{PORT + 1 + each}" for each in range(REPLICAS)
        ),
        "SLIPWAY_ELASTIC_INDEX": str(replica),
    }
    command = [
        sys.executable,
        "-m",
        "tests.trainer.bench.replica",
        str(place),
        data,
        str(replica),
        way,
    ]
    notes = place / f"{replica}.{life}.out"
    with notes.open("wb") as out, notes.with_suffix(".err").open("wb") as errors:
        return subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=out, stderr=errors
        )


def _go(processes: list[subprocess.Popen[bytes]]) -> None:
    """Let processes begin: all have imported torch by now, the replacement as well."""
    for each in processes:
        if each.stdin is not None:
            each.stdin.close()


def _furthest(place: Path) -> int:
    notes = [each for path in place.glob("*.out") for each in _notes(path)]
    return max((each["step"] for each in notes if "step" in each), default=0)


def _notes(path: Path) -> Notes:
    """Return a process's notes: Gloo writes there, too, and the last line may not be complete."""
    lines = path.read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line[0] == "{" and line[-1] == "\n"]


def main(data: str, *ways: str) -> None:
    """Print a row for each way and kill."""
    print(
        f"{time.strftime('%Y-%m-%d')}, torch {torch.__version__}, load {os.getloadavg()[0]:.1f}\n"
    )
    print("| " + " | ".join(_HEADS) + " |\n" + "|---" * len(_HEADS) + "|")
    kills = [(each, wait) for wait in (None, 3.0) for each in range(REPLICAS)]
    for way in ways:
        for killed, wait in [(None, None), *kills]:
            row = measure(data, way, killed, wait)
            print("| " + " | ".join(map(str, row)) + " |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
