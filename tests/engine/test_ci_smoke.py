"""`scripts/ci-smoke` on a real stack, which goes however it ends."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import yaml

from scripts.scratch import Scratch
from tests.engine.awaiting import COMMAND_SECONDS

pytestmark = pytest.mark.long
_SMALL = {"workers": 0, "args": ["--limit-train", "3000", "--limit-test", "500"]}


def junit(file: Path) -> dict[str, bool]:
    """Return which cases of a JUnit file passed."""
    cases = ET.parse(file).getroot().iter("testcase")  # noqa: S314
    return {case.attrib["name"]: case.find("failure") is None for case in cases}


@pytest.mark.parametrize(
    ("accuracy", "status", "gate", "steps"),
    [
        (0.1, 0, "passed", {"up": "ok", "smoke": "ok", "down": "ok"}),
        (0.9999, 125, "missed", {"up": "failed: mnist-gloo", "down": "ok"}),
    ],
)
def test_it_ends_with_0_when_all_is_well_and_with_125_when_a_job_misses_its_gate(
    accuracy: float, status: int, gate: str, steps: dict[str, str], scratch: Scratch
) -> None:
    jobs = {"mnist-gloo": {**_SMALL, "minAccuracy": accuracy}}
    config = {"slipway:cluster": {"kind": "embedded"}, "slipway:jobs": jobs}
    (scratch.checkout / "stacks" / "ci.yaml").write_text(yaml.safe_dump({"config": config}))
    command = "scripts/ci-smoke ci --timeout 20m --json summary.json --junit junit.xml"
    finished = scratch.run(command, COMMAND_SECONDS)
    assert finished.code == status, finished
    written = json.loads((scratch.checkout / "summary.json").read_text())
    assert {each["name"]: each["outcome"] for each in written["steps"]} == steps
    assert written["status"] == status
    assert written["jobs"]["mnist-gloo"]["gate"] == gate
    cases = junit(scratch.checkout / "junit.xml")
    assert "Removed ci completely: 0 processes" in finished.text
    if status == 0:
        assert len(cases) > 50
        assert all(cases.values())
    else:
        assert cases == {"up": False, "down": True}
