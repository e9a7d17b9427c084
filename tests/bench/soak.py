"""`make soak`: jobs come and go for MINUTES minutes, and what a stack holds must not grow.

The stack is one of its own in a copy of the checkout. Each round adds a job, trains it, keeps the
one before and removes the one before that, so that after two rounds every round holds the same.
"""

import argparse
import statistics
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import yaml
from rich import box
from rich.console import Console
from rich.table import Table

from clusters.embedded.layout import Layout
from core import toolchain
from core.paths import CHECKOUT
from scripts.scratch import Finished, Scratch
from tests.engine.footprint import Footprint

_LIMIT_SECONDS = 15 * 60.0
_WARM_ROUNDS = 2
_SCRIPT = """\
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
print(f"epoch=1 loss={1 / total.item():.3f}", flush=True)
"""
BOUNDS = {
    "memory (MiB)": (1.15, 50.0),
    "open files": (1.05, 30.0),
    "processes": (1.0, 2.0),
    "containers": (1.0, 10.0),  # those of the last round's pods, which the kubelet removes later
    "images": (1.0, 0.0),
    "mounts": (1.0, 0.0),
    "nftables lines": (1.0, 5.0),
    "disk (MiB)": (1.05, 200.0),
}
"""How far the last rounds may be above the first ones: a factor, and an amount on top."""


def run(scratch: Scratch, command: str) -> Finished:
    finished = scratch.run(command, _LIMIT_SECONDS)
    if finished.code != 0:
        raise SystemExit(str(finished))
    return finished


def train(scratch: Scratch, number: int) -> Finished:
    """Train job `number` beside the one before it; the one before that goes."""
    file = scratch.checkout / "Pulumi.dev.yaml"
    document = yaml.safe_load(file.read_text()) if file.exists() else {}
    job = {"script": "soak.py", "workers": 1, "cpu": "100m", "memory": "500Mi"}
    numbers = range(max(1, number - 1), number + 1)
    jobs = {f"soak-{each}": {**job, "args": [str(each)]} for each in numbers}
    config = {"slipway:cluster": {"kind": "embedded"}, "slipway:jobs": jobs}
    file.write_text(yaml.safe_dump({**document, "config": config}))
    return run(scratch, "make up")


def measure(scratch: Scratch) -> dict[str, float]:
    """Return what the stack holds now, by the names of `BOUNDS`."""
    [cluster] = (scratch.state_home / "slipway/clusters").iterdir()
    layout = Layout(cluster)
    pids = [each.pid for each in Footprint.take(scratch.directory).processes]
    ctr, nft = str(toolchain.path("ctr")), str(toolchain.path("nft"))
    ctr_list = (ctr, f"--address={layout.containerd_socket}", "--namespace=k8s.io")
    ruleset = ("ip", "netns", "exec", layout.node, nft, "list", "ruleset")
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return {
        "memory (MiB)": sum(_of(pid, _pss) for pid in pids) / 1024,
        "open files": sum(_of(pid, _files) for pid in pids),
        "processes": len(pids),
        "containers": len(_lines(*ctr_list, "containers", "list", "--quiet")),
        "images": len(_lines(*ctr_list, "images", "list", "--quiet")),
        "mounts": sum(str(cluster) in line or layout.id in line for line in mounts),
        "nftables lines": len(_lines(*ruleset)),
        "disk (MiB)": float(_lines("du", "-sm", str(scratch.directory))[0].split()[0]),
    }


def _pss(process: Path) -> float:
    """Return the memory of a process in KiB, shared pages counted in parts (proc(5))."""
    lines = (line.split() for line in (process / "smaps_rollup").read_text().splitlines())
    return next((float(words[1]) for words in lines if words[0] == "Pss:"), 0.0)


def _files(process: Path) -> float:
    return float(len(list((process / "fd").iterdir())))


def _of(pid: int, measure: Callable[[Path], float]) -> float:
    with suppress(OSError):  # it has ended
        return measure(Path("/proc") / str(pid))
    return 0.0


def _lines(*command: str) -> list[str]:
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return done.stdout.splitlines()


def main() -> None:
    """Print a line for each round and a table at the end; exit with 1 if a bound was exceeded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("minutes", type=float, nargs="?", default=30.0)
    minutes = parser.parse_args().minutes
    console, scratch = Console(), Scratch.copy_of(CHECKOUT)
    (scratch.checkout / "soak.py").write_text(_SCRIPT)
    rounds: list[dict[str, float]] = []
    began = time.monotonic()
    try:
        while time.monotonic() - began < 60 * minutes or len(rounds) < 3 * _WARM_ROUNDS:
            took = train(scratch, len(rounds) + 1).seconds
            rounds.append(measure(scratch))
            held = ", ".join(f"{name} {value:.0f}" for name, value in rounds[-1].items())
            console.print(f"round {len(rounds)}: {took:.1f} s; {held}", highlight=False)
    finally:
        run(scratch, "make down")
        scratch.remove()
    rounds = rounds[_WARM_ROUNDS:]
    third = max(1, len(rounds) // 3)
    table = Table("held", "first rounds", "last rounds", "bound", "", box=box.SIMPLE)
    exceeded = False
    for name, (factor, more) in BOUNDS.items():
        first = statistics.median(each[name] for each in rounds[:third])
        last = statistics.median(each[name] for each in rounds[-third:])
        bound = factor * first + more
        exceeded |= last > bound
        numbers = (f"{value:.0f}" for value in (first, last, bound))
        table.add_row(name, *numbers, "ok" if last <= bound else "✗")
    console.print(table)
    raise SystemExit(int(exceeded))


if __name__ == "__main__":
    main()
