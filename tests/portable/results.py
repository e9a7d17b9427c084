"""What of a run's result is the same wherever it ran, and what it is for each of the programs."""

import json
import sys
from collections.abc import Mapping
from typing import Any

import yaml

from core.paths import CHECKOUT, of_project, project_dir, state_dir
from scripts.cli import local

ENTRIES: Mapping[str, dict[str, Any]] = yaml.safe_load(
    (CHECKOUT / "tests/portable/entries.yaml").read_text()
)
"""The programs' jobs, by name."""
_FIELDS = (
    *("state", "world_size", "samples_seen", "exit_codes", "restarts", "left_behind"),
    *("accuracy", "loss", "epoch_accuracies", "metrics", "epoch_metrics"),
)
_OF_A_FAILURE = ("rank", "exit_code", "error")


def lasting(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a result depends neither on the time nor on the place of its run."""
    found = {name: result[name] for name in _FIELDS if name in result}
    if "artifacts" in result:
        files = result["artifacts"].items()
        found["files"] = {name: each["sha256"] for name, each in files if name != "artifacts.json"}
    if "failure" in result:
        known = result["failure"].items()
        found["failure"] = {name: each for name, each in known if name in _OF_A_FAILURE}
        found["reason"] = result["reason"]
    return found


def run_here(name: str, fields: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    """Run a job without a cluster, from a folder of stacks; return the exit code and the result."""
    document = {"config": {"slipway:jobs": {name: dict(fields)}}}
    (project_dir() / "Pulumi.mine.yaml").write_text(yaml.safe_dump(document))
    code = local.run_job("mine", name, sys.executable)
    *_, file = sorted(
        (state_dir() / "local" / of_project("mine") / "runs" / name).glob("*/result.json")
    )
    return code, json.loads(file.read_text())
