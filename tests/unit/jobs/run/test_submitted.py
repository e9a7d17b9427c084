"""A preview shows, and the API server judges, the object that is submitted.

A field's type says whether another value of it trains again; runs of older versions keep theirs.
"""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
import yaml
from hypothesis import HealthCheck, given, settings

from core.paths import CHECKOUT
from infra.provider.engine import plain_map, wrap_map
from jobs.api.client import JobApi
from jobs.config import KEYS, declare, read
from jobs.model.fields import Effect
from jobs.model.inputs import other_volumes
from jobs.model.job import EFFECTS, TrainingJob
from jobs.model.manifest import checkpoint_key, manifest
from jobs.model.places import VOLUME_URL
from jobs.model.pytorchjob import QUEUE_LABEL, templates
from jobs.model.submission import Submission
from jobs.records.history import provenance
from jobs.rules.rule import Surroundings
from jobs.run.lifecycle import PyTorchJobHandler
from jobs.run.patch import CHANGEABLE, Parts, patch_in_place
from jobs.run.preview import validate_admission
from jobs.run.submit import submit
from jobs.run.takeover import upgraded
from tests.unit.fake_api import FakeApi, served
from tests.unit.jobs_declared import jobs, submitted
from tests.unit.row import Row

_JOBS = "/apis/kubeflow.org/v1/namespaces/slipway-jobs/pytorchjobs"
_PAGES = ("jobs", "own-job", "start", "resources", "files", "data", "gpus", "runs", "inside")
_OF_THE_RUN = ("slipway.dev/run", "slipway.dev/spec-hash", "slipway.dev/attempt")
_BASES: dict[str, dict[str, Any]] = {
    "mnist-gloo": {},
    "mnist-nccl": {},
    "mnist-elastic": {},
    "script": {"script": "examples/tracked/plain.py", "retries": 1},
    "built": {"build": {"context": "examples/another"}},
    "image": {"image": "example.org/mine:1", "command": ["train"]},
}


def documented_values() -> dict[str, list[Any]]:
    """Return the values that a field has in the documentation's examples, by the field."""
    found: dict[str, list[Any]] = {}
    for page in _PAGES:
        text = (CHECKOUT / f"docs/{page}.md").read_text()
        for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL):
            document = yaml.safe_load(block)
            for declared in document.get("config", {}).get("slipway:jobs", document).values():
                for field, value in (declared if isinstance(declared, dict) else {}).items():
                    found.setdefault(field, []).append(value)
    return found


VALUES = documented_values()


def from_engine(submission: Submission) -> dict[str, Any]:
    known = {**submission.inputs(), "kubeconfig": "k"}
    return plain_map(wrap_map(json.loads(json.dumps(known))))


def inputs_of(name: str, declared: dict[str, Any]) -> dict[str, Any] | None:
    """Return a run's inputs as they come from the engine; None for what is no job."""
    job = declare(name, declared, name)
    return from_engine(submitted(job, place=VOLUME_URL)) if isinstance(job, TrainingJob) else None


def unchangeable(value: Any, parts: Parts | None = CHANGEABLE) -> Any:
    """Return what of a manifest a live job can't get any more."""
    if not isinstance(value, dict):
        return value
    below = {key: None if parts is None else parts.get(key, parts.get("*")) for key in value}
    return {key: unchangeable(each, below[key]) for key, each in value.items() if below[key] != {}}


@pytest.mark.parametrize("field", KEYS)
def test_another_value_of_a_field_does_what_its_type_says(field: str) -> None:
    """Each value of the documentation is given to jobs of every kind that may have it."""
    effect, judged = EFFECTS[field], 0
    for name, base in _BASES.items():
        for value in VALUES[field]:
            before, now = inputs_of(name, base), inputs_of(name, {**base, field: value})
            if before is None or now is None or (before == now and field in base):
                continue
            judged += 1
            state = {**before, "result": {"state": "Succeeded"}}
            changes = PyTorchJobHandler().diff(state, now, Row())
            old, new = (Submission.from_inputs(each) for each in (before, now))
            trains = any(change.replace for change in changes)
            assert trains == (old.digest() != new.digest())
            if effect is Effect.TRAINS:
                assert trains or before == now, (name, value)
            elif effect is not Effect.CONTENT:
                assert not trains, (name, value, changes)
            if effect is Effect.IN_PLACE:
                assert unchangeable(manifest(old)) == unchangeable(manifest(new)), (name, value)
            if effect is Effect.JUDGES:
                assert before == now, "the inputs of a run have nothing of its gate"
    assert judged > 0


_SOME = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])


@_SOME
@given(job=jobs)
def test_a_renamed_job_trains_nothing_and_keeps_its_volumes(job: TrainingJob) -> None:
    before = submitted(job, place=VOLUME_URL)
    now = submitted(replace(job, name="renamed", was=(job.name,)), place=VOLUME_URL)
    assert before.digest() == now.digest()
    assert checkpoint_key(before) == checkpoint_key(now)
    volumes, renamed = (
        [pod["spec"]["volumes"] for pod in templates(manifest(each)).values()]
        for each in (before, now)
    )
    assert volumes == renamed
    state, inputs, row = from_engine(before), from_engine(now), Row()
    changes = PyTorchJobHandler().diff({**state, "result": {"state": "Succeeded"}}, inputs, row)
    assert {change.path for change in changes} >= {"job.name"}
    assert not any(change.replace for change in changes)
    assert row.said[0].endswith("; nothing is trained")


@_SOME
@given(job=jobs)
def test_the_api_server_judges_what_is_submitted(job: TrainingJob) -> None:
    artifacts = {name: {"url": "u", "sha256": "5" * 64} for name in job.inputs}
    tracking = {"kind": "mlflow", "url": "http://u", "experiment": f"dev/{job.name}"}
    submission = submitted(job, place=VOLUME_URL, artifacts=artifacts or None, tracking=tracking)
    with served(FakeApi()) as api:
        api.says("POST", _JOBS, {}, 201)
        inputs = {**submission.inputs(), "kubeconfig": api.kubeconfig}
        validate_admission(inputs)
        client = JobApi.connect(api.kubeconfig, "slipway-jobs", job.name)
        submit(client, submission, provenance(inputs), Row())
    judged, made = (body for method, _, body in api.asked if method == "POST")
    for label in _OF_THE_RUN:
        del made["metadata"]["labels"][label]
    for role in made["spec"]["pytorchReplicaSpecs"].values():
        del role["template"]["metadata"]["labels"]["slipway.dev/run"]
    assert judged == made


@_SOME
@given(before=jobs, now=jobs)
def test_no_change_resumes_or_moves_a_suspended_job(before: TrainingJob, now: TrainingJob) -> None:
    """Kueue refuses to change the label of a job that is not suspended: all else would fail."""
    old, new = (manifest(submitted(each)) for each in (before, now))
    for queue, each in (("a", old), ("b", new)):
        each["metadata"]["labels"][QUEUE_LABEL] = queue
    existing = manifest(submitted(before))
    existing["spec"]["runPolicy"]["suspend"] = True
    live = MagicMock()
    live.pods.return_value = []
    patch_in_place(live, old, new)
    patch_in_place(live, existing, new, removing=False)
    for (change,), _ in live.patch.call_args_list:
        assert "suspend" not in change.get("spec", {}).get("runPolicy", {})
        assert QUEUE_LABEL not in change.get("metadata", {}).get("labels", {})


_KNOWN = json.loads(Path(__file__).with_name("runs_of_bea3486.json").read_text())
"""Jobs and their runs' inputs, without nulls, of the commit bea3486 of November 2026."""
_OLD: dict[str, dict[str, Any]] = _KNOWN["inputs"]
_FOUND = read(_KNOWN["jobs"], "slipway:jobs", Surroundings())
_DECLARED = {job.name: job for job in _FOUND.jobs}


def submission_today(name: str) -> Submission:
    """Return what is submitted for a job today, with the images that its run had."""
    job, old, script = _DECLARED[name], upgraded(_OLD[name]), _FOUND.scripts.get(name)
    return Submission(
        job=job,
        image=old["image"],
        fetch_image=old.get("fetchImage"),
        script=None if script is None else script.mounted,
        input_volumes=other_volumes(job, _DECLARED, has_volume=True),
        keeps_data=True,
        place=VOLUME_URL,
        artifacts=old.get("artifacts"),
        tracking=old.get("tracking"),
    )


@pytest.mark.parametrize("name", _OLD)
def test_a_run_of_an_older_version_keeps_its_result_with_the_same_image(name: str) -> None:
    """Only the default of the timeout is patched."""
    state, row = {**_OLD[name], "result": {"state": "Succeeded"}}, Row()
    now = from_engine(submission_today(name))
    changes = PyTorchJobHandler().diff(state, now, row)
    assert not any(change.replace for change in changes)
    is_own = "timeout" in _KNOWN["jobs"].get(name, {})
    assert row.said == [] if is_own else ["timeout 3600 → 86400; nothing is trained"]
    before = Submission.from_inputs(upgraded(state))
    assert checkpoint_key(before) == checkpoint_key(submission_today(name)), "a failed one resumes"
    assert manifest(before)["spec"]["runPolicy"] == _OLD[name]["manifest"]["spec"]["runPolicy"]
    changes = PyTorchJobHandler().diff(state, {**now, "image": "another"}, row)
    assert [change.path for change in changes if change.replace] == ["image"]
    assert row.said[-1].startswith("trains again: ")
