"""Writes jobs/baselines/: the last run of each demo of a stack, for `make compare`.

python -m tests.docs.baselines STACK, after `make up` on a machine with nothing else to do.
"""

import json
import os
import platform
import sys
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from core.fields import gibibytes
from core.paths import CHECKOUT
from jobs.config import CATALOG
from jobs.records import archive
from jobs.records.history import History, Record

FOLDER = CHECKOUT / "jobs" / "baselines"
_KEPT = (
    "state", "accuracy", "top5_accuracy", "class_accuracies", "loss", "metrics", "epoch_metrics",
    "time_to_accuracy_seconds", "training_seconds", "duration_seconds", "goodput", "samples_seen",
    "world_size", "backend", "dataset", "device", "device_name",
)  # fmt: skip


def main() -> None:
    """Write a baseline of each demo whose last run in the stack has succeeded."""
    [stack] = sys.argv[1:]
    FOLDER.mkdir(exist_ok=True)
    for job in CATALOG:
        records = History(archive.of_job(stack, job)).records()
        if records and (records[-1].result or {}).get("state") == "Succeeded":
            text = json.dumps(document(records[-1]), indent=1)
            (FOLDER / f"{job}.json").write_text(f"{text}\n", encoding="utf-8")


def document(record: Record) -> dict[str, Any]:
    """Return a baseline: what `scripts.cli.runs.compare.baseline` reads."""
    result = record.result or {}
    by = {key: value for key, value in record.provenance.items() if key != "image"}
    kept = {key: result[key] for key in _KEPT if result.get(key) is not None}
    about = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.partition(":")[2] for line in about if line.startswith("model name")), "")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "machine": {
            "processor": model.strip() or platform.machine(),
            "cores": os.cpu_count(),
            "memory": gibibytes(memory),
        },
        "versions": {"torch": result.get("torch"), "slipway": str(by.get("revision"))[:12]},
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "run": asdict(replace(record, provenance=by, result=kept)),
    }


if __name__ == "__main__":
    main()
