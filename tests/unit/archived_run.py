"""A run's archive as the machine that waits leaves it, made without a cluster."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from jobs.model.pytorchjob import Topology
from jobs.records import archive
from jobs.records.archive import Run
from jobs.records.history import History, Record

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
COMMIT = "8aecfa7e0c0ffee0c0ffee0c0ffee0c0ffee0c0f"


def at(second: float) -> str:
    return (BEGAN + timedelta(seconds=second)).isoformat(timespec="milliseconds")


def line(second: float, text: str) -> str:
    moment = BEGAN + timedelta(seconds=second)
    return f"{moment:%Y-%m-%dT%H:%M:%S.%f}000Z {text}\n"


def event(second: float, kind: str, rank: int, **values: Any) -> str:
    return line(second, json.dumps({"event": kind, "rank": rank, "time": at(second), **values}))


def rank_log(rank: int, epochs: int = 2, steps: int = 5) -> str:
    """What a rank of a demo prints; its losses are 2/(step + 1) plus a hundredth of its rank."""
    text = event(0, "started", rank, epochs=epochs, world_size=2)
    for epoch in range(1, epochs + 1):
        begin = (epoch - 1) * 10
        for step in range(steps):
            done = (epoch - 1) * steps + step
            loss = 2 / (done + 1) + rank / 100
            text += event(begin + step, "step", rank, epoch=epoch, step=step, steps=steps,
                          samples=64 * (step + 1), loss=loss)  # fmt: skip
        found = {"accuracy": 0.9 + epoch / 100, "test_loss": 0.3 / epoch}
        text += event(begin + 6, "validation", rank, epoch=epoch, step=steps,
                      elapsed_seconds=begin + 6, **found)  # fmt: skip
        parts = {"data": 0.5, "forward": 1.5, "backward": 2.5, "optimizer": 0.5}
        text += event(begin + 7, "epoch", rank, epoch=epoch, loss=0.5 / epoch, rank_loss=0.5,
                      steps=steps, samples=320, seconds=5.0, samples_per_second=64.0,
                      seconds_in=parts, cpu_seconds=4.0, peak_memory_mib=300.0,
                      **found)  # fmt: skip
    return text


def made(
    logs: Sequence[str],
    *,
    stack: str = "dev",
    job: str = "mine",
    run_id: str = "mine-20260101-000000-aaaa",
    topology: Topology | None = None,
    timeline: Sequence[Mapping[str, str]] = (),
) -> Run:
    """Write the archive of a run: a log of each replica, in `state_dir`."""
    run = archive.of_job(stack, job).run(run_id)
    run.directory.mkdir(parents=True)
    for replica, text in enumerate(logs):
        run.log(replica, f"c{replica}").path.write_text(text)
    run.describe(Topology(len(logs)) if topology is None else topology)
    run.timeline.write_text("".join(f"{json.dumps(each)}\n" for each in timeline))
    (run.directory / "complete").touch()
    return run


def remembered(
    run_id: str, result: Mapping[str, Any] | None, *, job: str = "mine", **provenance: Any
) -> Path:
    """Write the record of a run of a job of dev's; return its file."""
    history = History(archive.of_job("dev", job))
    known = {"revision": COMMIT, "image": "example.org/mine:1", "settings": {}, **provenance}
    history.begin(Record(run_id=run_id, submitted=at(0), provenance=known))
    if result is not None:
        history.end(run_id, result)
    return history.archive.directory / f"{run_id}.json"
