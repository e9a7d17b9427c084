"""What is trained once is kept by `pulumi up`, and a preview says what trains, and why.

The tests run in order, on one stack. What changes in place, and how, is in tests/runs.
"""

import json
import secrets
from collections.abc import Mapping
from typing import Any

import pytest

from scripts.cli.commands import run_urns
from tests.engine.awaiting import await_true
from tests.engine.cli_stack import Outcome
from tests.engine.job_programs import REFUSAL, REFUSED, SUMMARY, python
from tests.engine.killing import train_with
from tests.engine.pytorchjob_stack import Jobs, JobStack
from tests.engine.stack import LiveStack

Section = dict[str, dict[str, Any]]


def _declared(trainer: str, **fields: Any) -> dict[str, Any]:
    return python(trainer, SUMMARY, '{"accuracy": 0.5}', "0", **fields)


@pytest.fixture(scope="module")
def section(trainer: str) -> Section:
    """Two jobs; the second one is cleaned away."""
    return {f"own-{secrets.token_hex(4)}": _declared(trainer, workers=0) for _ in range(2)}


@pytest.fixture(scope="module")
def trained(module_stack: JobStack, section: Section) -> Mapping[str, Any]:
    """The results of these jobs, trained once."""
    module_stack.up(**section)
    return {name: module_stack.output(name) for name in section}


def _told(outcome: Outcome, job_name: str) -> list[str]:
    """Return the lines that stay which the engine printed for a run."""
    events = [event["diagnosticEvent"] for event in outcome.events if "diagnosticEvent" in event]
    return [
        str(event["message"])
        for event in events
        if event.get("urn", "").endswith(f"PyTorchJob::{job_name}") and not event.get("ephemeral")
    ]


@pytest.mark.usefixtures("trained")
def test_a_preview_shows_what_new_jobs_need_and_that_the_api_server_admits_them(
    section: Section, job_name: str, module_stack: JobStack, jobs: Jobs, trainer: str
) -> None:
    """In one line each; the complete PyTorchJob: test_previews.py."""
    new = {job_name: _declared(trainer, workers=3, memory="1Gi"), "other": _declared(trainer)}
    preview = module_stack.preview(**section, **new)
    # What is there already is not told of.
    assert [_told(preview, name) for name in section] == [[], []]
    [large], [small] = (_told(preview, name) for name in new)
    needs = "needs 4 pods with 0.4 cores, 4 GiB in total"
    assert large.strip() == f"{needs}; runs for at most 10 min; the API server admits it"
    assert small.startswith("needs 2 pods with")
    together = "the stack's 4 jobs need 8 pods with 0.8 cores, "
    assert any(together in str(event) for event in preview.events)
    assert jobs.uids(job_name) == []


@pytest.mark.usefixtures("trained")
def test_a_preview_of_a_replacement_shows_everything_and_of_a_label_one_line(
    section: Section, module_stack: JobStack, jobs: Jobs
) -> None:
    uids = [jobs.uids(name) for name in section]
    (labelled, labels), (larger, declared) = section.items()
    now = {labelled: {**labels, "labels": {"a": "b"}}, larger: {**declared, "memory": "256Mi"}}
    preview = module_stack.preview(**now)
    (line,) = _told(preview, labelled)
    assert line.strip().endswith("nothing is trained")
    # A job of that name is there, and is no refusal: it goes before the new one comes.
    words, shown = _told(preview, larger)
    assert words.strip() == "trains again: memory 128Mi → 256Mi"
    assert "job.memory" in preview.diff(larger), preview
    assert shown.startswith(
        "needs 1 pod with 0.1 cores, 256 MiB; runs for at most 10 min; the API server admits it\n"
    )
    assert [jobs.uids(name) for name in section] == uids


def test_nothing_is_trained_after_up_and_refresh_though_a_job_was_cleaned_away(
    trained: Mapping[str, Any], section: Section, module_stack: JobStack, jobs: Jobs
) -> None:
    """After the TTL removed a job, `refresh` and `up` train nothing and keep its result."""
    (_, gone) = section
    policy = {"spec": {"runPolicy": {"ttlSecondsAfterFinished": 1}}}
    jobs.kubectl("patch", "pytorchjob", gone, "--type", "merge", "--patch", json.dumps(policy))
    # Its pods go after it, by the garbage collector.
    await_true(lambda: jobs.uids(gone) == [] and jobs.items("pods", gone) == [])
    left = {name: jobs.uids(name) for name in section}
    assert "trains again" not in module_stack.run("refresh").text
    again = module_stack.up(**section)
    assert again.changes == {}
    assert "trains again" not in again.text
    assert {name: module_stack.output(name) for name in section} == trained
    assert {name: jobs.uids(name) for name in section} == left


def test_a_rerun_on_purpose_trains_one_job_alone_though_nothing_has_changed(
    trained: Mapping[str, Any], section: Section, module_stack: JobStack, jobs: Jobs
) -> None:
    (plain, other), before = section, {name: jobs.uids(name) for name in section}
    urn = run_urns(module_stack.saved)[plain]
    again = module_stack.run("up", "--replace", urn, **section)
    replaced = {step["urn"] for step in again.steps if "replace" in step["op"]}
    for kind in ("PyTorchJob", "Gate"):
        assert [urn.rpartition("::")[2] for urn in replaced if f":{kind}::" in urn] == [plain]
    assert jobs.uids(plain) != before[plain]
    assert jobs.uids(other) == before[other]
    assert module_stack.output(plain)["run_id"] != trained[plain]["run_id"]


@pytest.mark.long
@pytest.mark.usefixtures("trained")
def test_a_job_that_was_renamed_keeps_its_result_and_trains_nothing(
    section: Section, job_name: str, module_stack: JobStack, jobs: Jobs
) -> None:
    """Also what it left on this machine; its object goes, since none gets another name."""
    (old, _), new = section, job_name
    before = module_stack.output(old)
    section[new] = {**section.pop(old), "was": old}
    renamed = module_stack.up(**section)
    assert any(line.strip().endswith("; nothing is trained") for line in _told(renamed, new))
    assert module_stack.output(new) == before
    assert (jobs.uids(old), jobs.uids(new)) == ([], [])
    assert module_stack.up(**section).changes == {}


@pytest.mark.usefixtures("trained")
def test_what_the_api_server_refuses_fails_the_preview_and_takes_no_success_away(
    section: Section, job_name: str, module_stack: JobStack, jobs: Jobs, trainer: str
) -> None:
    """In its words; an update without a preview keeps what a refused run would replace."""
    refused = _declared(trainer, workers=1, labels=REFUSED)
    said = module_stack.refused("preview", **section, **{job_name: refused})
    assert f"PyTorchJob slipway-jobs/{job_name} would be refused" in said
    assert REFUSAL in said
    assert "Traceback" not in said
    assert jobs.uids(job_name) == []

    (plain, _) = section
    results, uids = _results(module_stack), jobs.uids(plain)
    said = module_stack.refused("up", **{**section, plain: refused})
    assert f"PyTorchJob slipway-jobs/{plain} would be refused" in said
    assert REFUSAL in said
    assert jobs.uids(plain) == uids
    assert _results(module_stack) == results


def _results(stack: JobStack) -> list[dict[str, Any]]:
    ours = [each for each in stack.resources if each["type"].startswith("slipway:jobs:")]
    return [each["outputs"]["result"] for each in ours]


@pytest.mark.long
def test_make_rerun_trains_a_demo_again(mortal_stack: LiveStack) -> None:
    train_with(mortal_stack, seed=0)
    mortal_stack.up()
    before = mortal_stack.job("mnist-gloo")
    mortal_stack.run("make rerun JOB=mnist-gloo")
    after = mortal_stack.job("mnist-gloo")
    assert after["state"] == "Succeeded"
    assert after["run_id"] != before["run_id"]
