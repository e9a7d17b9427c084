"""Runs that Slipway declared before November 2026 keep their results."""

import json
from pathlib import Path
from typing import Any

import pytest

from infra.provider.engine import plain_map, wrap_map
from jobs.config import read
from jobs.model.inputs import other_volumes
from jobs.model.manifest import checkpoint_key, manifest
from jobs.model.places import VOLUME_URL
from jobs.model.submission import Submission
from jobs.rules.rule import Surroundings
from jobs.run.lifecycle import PyTorchJobHandler
from jobs.run.takeover import upgraded
from tests.unit.row import Row

_KNOWN = json.loads(Path(__file__).with_name("runs_of_bea3486.json").read_text())
"""What the commit bea3486 made of some jobs: the inputs of their runs, without nulls."""
_OLD: dict[str, dict[str, Any]] = _KNOWN["inputs"]
_FOUND = read(_KNOWN["jobs"], "slipway:jobs", Surroundings())
_JOBS = {job.name: job for job in _FOUND.jobs}


def submission(name: str) -> Submission:
    """Return what is submitted for a job today, with the images that its run had."""
    job, old, script = _JOBS[name], upgraded(_OLD[name]), _FOUND.scripts.get(name)
    return Submission(
        job=job,
        image=old["image"],
        fetch_image=old.get("fetchImage"),
        script=None if script is None else script.mounted,
        input_volumes=other_volumes(job, _JOBS, has_volume=True),
        keeps_data=True,
        place=VOLUME_URL,
        artifacts=old.get("artifacts"),
        tracking=old.get("tracking"),
    )


def inputs(name: str) -> dict[str, Any]:
    """Return them as they come from the engine."""
    known = {**submission(name).inputs(), "kubeconfig": "kubeconfig"}
    return plain_map(wrap_map(json.loads(json.dumps(known))))


@pytest.mark.parametrize("name", _OLD)
def test_with_the_same_image_only_the_default_timeout_is_patched(name: str) -> None:
    state, row = {**_OLD[name], "result": {"state": "Succeeded"}}, Row()
    changes = PyTorchJobHandler().diff(state, inputs(name), row)
    assert [change.path for change in changes if change.replace] == []
    is_own = "timeout" in _KNOWN["jobs"].get(name, {})
    assert row.said == [] if is_own else ["timeout 3600 → 86400; nothing is trained"]
    taken = manifest(Submission.from_inputs(upgraded(state)))["spec"]
    assert taken["runPolicy"] == _OLD[name]["manifest"]["spec"]["runPolicy"]


@pytest.mark.parametrize("name", _OLD)
def test_another_image_trains_again_and_says_so(name: str) -> None:
    state, row = {**_OLD[name], "result": {"state": "Succeeded"}}, Row()
    changes = PyTorchJobHandler().diff(state, {**inputs(name), "image": "another"}, row)
    assert [change.path for change in changes if change.replace] == ["image"]
    assert row.said[0].startswith("trains again: ")


@pytest.mark.parametrize("name", ["scripted", "stored"])
def test_a_failed_run_resumes_from_the_checkpoints_that_it_wrote(name: str) -> None:
    before = Submission.from_inputs(upgraded(_OLD[name]))
    assert checkpoint_key(before) == checkpoint_key(submission(name))
