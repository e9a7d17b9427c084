"""What is trained once is kept by `pulumi up`, and a preview says what trains again.

The tests run in order, on one stack. What changes in place, and how, is in tests/runs.
"""

import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from scripts.cli.commands import run_urns
from tests.engine.awaiting import await_true
from tests.engine.cli_stack import Outcome
from tests.engine.job_programs import SUMMARY, python
from tests.engine.killing import train_with
from tests.engine.pytorchjob_stack import Jobs, JobStack
from tests.engine.stack import LiveStack

Section = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def mark() -> str:
    """What the names of these jobs begin with."""
    return f"own-{secrets.token_hex(4)}"


@pytest.fixture(scope="module")
def script(module_stack: JobStack) -> Path:
    """A script of one job's own."""
    file = module_stack.directory / "train.py"
    file.write_text("print('one')\n")
    return file


@pytest.fixture(scope="module")
def section(mark: str, script: Path, trainer: str) -> Section:
    """Jobs of which each shows something else."""
    plain = python(trainer, SUMMARY, '{"accuracy": 0.5}', "0", workers=0)
    scripted = {
        key: value for key, value in plain.items() if key not in {"image", "command", "args"}
    }
    small = {"workers": 1, "cpu": "200m", "memory": "512Mi", "minAccuracy": 0}
    options = ["--limit-train", "300", "--limit-test", "100"]
    return {
        f"{mark}-plain": plain,
        f"{mark}-gone": plain,
        f"{mark}-script": {**scripted, "script": str(script)},
        f"{mark}-demo": {"demo": "mnist-gloo", "args": options, **small},
    }


@pytest.fixture(scope="module")
def trained(module_stack: JobStack, section: Section) -> Mapping[str, Any]:
    """The results of these jobs, trained once."""
    module_stack.up(**section)
    return {name: module_stack.output(name) for name in section}


def test_nothing_is_trained_after_up_and_refresh_though_a_job_was_cleaned_away(
    trained: Mapping[str, Any], section: Section, mark: str, module_stack: JobStack, jobs: Jobs
) -> None:
    """After the TTL removed a job, `up` and `refresh` train nothing and keep its result."""
    gone = f"{mark}-gone"
    _end_of_life(jobs, gone)
    # Its pods go after it, by the garbage collector.
    await_true(lambda: jobs.uids(gone) == [] and jobs.items("pods", gone) == [])
    left = {name: jobs.uids(name) for name in section}

    def assert_nothing_has_changed() -> None:
        assert {name: module_stack.output(name) for name in section} == trained
        assert {name: jobs.uids(name) for name in section} == left

    again = module_stack.up(**section)
    assert again.changes == {}
    assert "trains again" not in again.text
    assert_nothing_has_changed()
    module_stack.refresh()
    assert_nothing_has_changed()
    assert module_stack.up(**section).changes == {}
    assert_nothing_has_changed()


def _end_of_life(jobs: Jobs, job: str) -> None:
    """Have the operator remove a job whose end is more than a second ago."""
    policy = {"spec": {"runPolicy": {"ttlSecondsAfterFinished": 1}}}
    patch = ("--type", "merge", "--patch", json.dumps(policy))
    jobs.kubectl("patch", "pytorchjob", job, *patch)


@pytest.mark.long
def test_preview_and_up_name_the_field_that_changed(
    trained: Mapping[str, Any],
    section: Section,
    mark: str,
    script: Path,
    module_stack: JobStack,
    jobs: Jobs,
) -> None:
    """A learning rate or a script that changed trains again; the preview names the field."""
    demo, plain = f"{mark}-demo", f"{mark}-plain"
    script.write_text("print('two')\n")
    now = {
        **section,
        demo: {**section[demo], "learningRate": 0.02},
        plain: {**section[plain], "labels": {"team": "speech"}},
    }
    words = {
        demo: "trains again: learningRate 0.01 → 0.02",
        f"{mark}-script": f"trains again: script {script} changed",
        plain: 'labels unset → {"team": "speech"}; nothing is trained',
    }
    before = {name: jobs.uids(name) for name in section}

    preview = module_stack.preview(**now)
    for name, line in words.items():
        assert _told(preview, name).count(line) == 1, preview.text
    assert "job.learningRate" in preview.diff(demo), preview
    assert {name: jobs.uids(name) for name in section} == before

    up = module_stack.up(**now)
    for name, line in words.items():
        assert _told(up, name).count(line) == 1, up.text
    assert _changed(before, jobs) == {demo, f"{mark}-script"}
    assert module_stack.output(demo)["run_id"] != trained[demo]["run_id"]
    section.update(now)


def _told(outcome: Outcome, job_name: str) -> list[str]:
    """Return the lines that stay which the engine printed for a run, without their line ends."""
    events = [event["diagnosticEvent"] for event in outcome.events if "diagnosticEvent" in event]
    return [
        str(event["message"]).strip()
        for event in events
        if event.get("urn", "").endswith(f"PyTorchJob::{job_name}") and not event.get("ephemeral")
    ]


def _changed(before: Mapping[str, list[str]], jobs: Jobs) -> set[str]:
    """Return the jobs that are others than before."""
    return {name for name, uids in before.items() if jobs.uids(name) != uids}


def test_a_rerun_on_purpose_trains_one_job_alone_though_nothing_has_changed(
    trained: Mapping[str, Any], section: Section, mark: str, module_stack: JobStack, jobs: Jobs
) -> None:
    """A rerun on purpose is one command, of one job alone."""
    plain, before = f"{mark}-plain", {name: jobs.uids(name) for name in section}
    urn = run_urns(module_stack.export())[plain]
    again = module_stack.run("up", "--replace", urn, **section)
    replaced = {name for name in section if _is_replaced(again, "PyTorchJob", name)}
    judged = {name for name in section if _is_replaced(again, "Gate", name)}
    assert (replaced, judged) == ({plain}, {plain}), again.text
    assert _changed(before, jobs) == {plain}
    assert module_stack.output(plain)["run_id"] != trained[plain]["run_id"]


def _is_replaced(outcome: Outcome, kind: str, name: str) -> bool:
    steps = [event.get("resourcePreEvent", {}).get("metadata", {}) for event in outcome.events]
    of_it = [step["op"] for step in steps if step.get("urn", "").endswith(f"{kind}::{name}")]
    return any("replace" in operation for operation in of_it)


@pytest.mark.long
def test_a_job_that_was_renamed_keeps_its_result_and_trains_nothing(
    trained: Mapping[str, Any], section: Section, mark: str, module_stack: JobStack, jobs: Jobs
) -> None:
    """Also what it left on this machine; its object goes, since none gets another name."""
    old, new = f"{mark}-script", f"{mark}-renamed"
    assert old in trained
    before = module_stack.output(old)
    section[new] = {**section.pop(old), "was": old}
    renamed = module_stack.up(**section)
    assert any(line.endswith("; nothing is trained") for line in _told(renamed, new)), renamed.text
    assert module_stack.output(new) == before
    assert (jobs.uids(old), jobs.uids(new)) == ([], [])
    assert module_stack.up(**section).changes == {}


@pytest.mark.long
def test_make_rerun_trains_a_demo_again_and_knows_which_there_are(mortal_stack: LiveStack) -> None:
    train_with(mortal_stack, seed=0)
    mortal_stack.up()
    before, uids = mortal_stack.job("mnist-gloo"), mortal_stack.uids()
    unknown = mortal_stack.attempt("make rerun JOB=mnist-glo")
    assert unknown.code != 0
    assert "Did you mean mnist-gloo?" in unknown.errors
    assert mortal_stack.uids() == uids
    mortal_stack.run("make rerun JOB=mnist-gloo")
    after = mortal_stack.job("mnist-gloo")
    assert after["state"] == "Succeeded"
    assert after["run_id"] != before["run_id"]
