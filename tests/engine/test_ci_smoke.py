"""`scripts/ci-smoke` on a real stack, once for each way to end; the stack goes each time."""

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.scratch import Finished, Scratch
from tests.engine.awaiting import COMMAND_SECONDS

pytestmark = pytest.mark.long
_SMALL = {"workers": 0, "args": ["--limit-train", "3000", "--limit-test", "500"]}
_GONE = "Removed ci completely: 0 processes"


@pytest.fixture
def scratch(root: Path) -> Iterator[Scratch]:
    """A user's checkout."""
    made = Scratch.copy_of(root)
    yield made
    made.remove()


def ci_smoke(scratch: Scratch, options: str = "", accuracy: float = 0.1) -> Finished:
    """Run it on a stack `ci` of the user's with a job that trains in seconds."""
    jobs = {"mnist-gloo": {**_SMALL, "minAccuracy": accuracy}}
    config = {"slipway:cluster": {"kind": "embedded"}, "slipway:jobs": jobs}
    (scratch.checkout / "stacks" / "ci.yaml").write_text(yaml.safe_dump({"config": config}))
    written = "--json summary.json --junit junit.xml"
    return scratch.run(f"scripts/ci-smoke ci {written} {options}", COMMAND_SECONDS)


def summary(scratch: Scratch) -> dict[str, Any]:
    """Return what it has written, with the outcome of each step."""
    written = json.loads((scratch.checkout / "summary.json").read_text())
    return {**written, "steps": {each["name"]: each["outcome"] for each in written["steps"]}}


def junit(scratch: Scratch) -> dict[str, bool]:
    """Return which cases of the JUnit file passed."""
    cases = ET.parse(scratch.checkout / "junit.xml").getroot().iter("testcase")  # noqa: S314
    return {case.attrib["name"]: case.find("failure") is None for case in cases}


def test_0_when_all_is_well(scratch: Scratch) -> None:
    finished = ci_smoke(scratch)
    assert finished.code == 0, finished
    assert summary(scratch)["steps"] == {"up": "ok", "smoke": "ok", "down": "ok"}
    assert len(cases := junit(scratch)) > 50
    assert all(cases.values())
    assert _GONE in finished.text


def test_124_when_time_is_up(scratch: Scratch) -> None:
    finished = ci_smoke(scratch, "--timeout 12s")
    assert finished.code == 124, finished
    assert summary(scratch)["steps"] == {"up": "timed out after 12 s", "down": "ok"}
    assert junit(scratch) == {"up": False, "down": True}
    assert _GONE in finished.text


def test_125_when_a_job_misses_its_gate(scratch: Scratch) -> None:
    finished = ci_smoke(scratch, accuracy=0.9999)
    assert finished.code == 125, finished
    written = summary(scratch)
    assert written["steps"] == {"up": "failed: mnist-gloo", "down": "ok"}
    assert written["status"] == 125
    assert written["jobs"]["mnist-gloo"]["gate"] == "missed"
    assert junit(scratch) == {"up": False, "down": True}
    assert _GONE in finished.text
