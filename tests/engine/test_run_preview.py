"""What a preview shows of runs that are to be, and what an update asks before it makes them."""

import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from core.context import SHOWN_VARIABLE
from tests.engine.cli_stack import Outcome
from tests.engine.job_programs import REFUSAL, REFUSED, SUMMARY, python
from tests.engine.pytorchjob_stack import Jobs, JobStack
from tests.engine.stack import LiveStack


def _told(outcome: Outcome, job_name: str) -> list[str]:
    """Return the lines that stay which the engine printed for a run."""
    events = [event["diagnosticEvent"] for event in outcome.events if "diagnosticEvent" in event]
    return [
        str(event["message"])
        for event in events
        if event.get("urn", "").endswith(f"PyTorchJob::{job_name}") and not event.get("ephemeral")
    ]


def _declared(trainer: str, **fields: Any) -> dict[str, Any]:
    return python(trainer, SUMMARY, '{"accuracy": 0.5}', "0", **fields)


@pytest.fixture(scope="module")
def there(module_stack: JobStack, trainer: str) -> Mapping[str, Any]:
    """Jobs that have run."""
    declared = _declared(trainer, workers=0)
    section = {f"own-{secrets.token_hex(4)}": declared for _ in range(2)}
    module_stack.up(**section)
    return section


def test_a_preview_shows_the_job_and_what_it_needs_and_that_the_api_server_admits_it(
    there: Mapping[str, Any],
    job_name: str,
    module_stack: JobStack,
    jobs: Jobs,
    trainer: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In one line, and the complete PyTorchJob of the one that is asked for."""
    monkeypatch.setitem(module_stack._environment, SHOWN_VARIABLE, job_name)
    other = f"{job_name}-2"
    new = {job_name: _declared(trainer, workers=3, memory="1Gi"), other: _declared(trainer)}
    preview = module_stack.preview(**there, **new)
    # What is there already is not told of.
    assert [_told(preview, name) for name in there] == [[], []]
    [message], [beside] = (_told(preview, name) for name in new)
    first, _, rest = message.partition("\n")
    needs = "needs 4 pods with 0.4 cores, 4 GiB in total"
    assert first == f"{needs}; runs for at most 10 min; the API server admits it"
    shown = yaml.safe_load(rest[rest.index("apiVersion:") :])
    assert [*shown] == ["apiVersion", "kind", "metadata", "spec"]
    assert shown["metadata"]["name"] == job_name
    roles = shown["spec"]["pytorchReplicaSpecs"]
    assert {role: each["replicas"] for role, each in roles.items()} == {"Master": 1, "Worker": 3}
    assert roles["Master"]["template"]["spec"]["containers"][0]["command"][2] == SUMMARY
    assert beside.startswith("needs 2 pods with")
    assert "\n" not in beside.rstrip()
    together = "the stack's 4 jobs need 8 pods with 0.8 cores, "
    assert any(together in str(event) for event in preview.events)
    assert jobs.uids(job_name) == jobs.uids(other) == []


def test_a_preview_of_a_replacement_shows_everything_and_of_a_label_one_line(
    there: Mapping[str, Any], module_stack: JobStack, jobs: Jobs
) -> None:
    uids = [jobs.uids(name) for name in there]
    (labelled, labels), (larger, declared) = there.items()
    now = {labelled: {**labels, "labels": {"a": "b"}}, larger: {**declared, "memory": "256Mi"}}
    preview = module_stack.preview(**now)
    (line,) = _told(preview, labelled)
    assert line.strip().endswith("nothing is trained")
    # A job of that name is there, and is no refusal: it goes before the new one comes.
    words, shown = _told(preview, larger)
    assert words.strip() == "trains again: memory 128Mi → 256Mi"
    assert shown.startswith(
        "needs 1 pod with 0.1 cores, 256 MiB; runs for at most 10 min; the API server admits it\n"
    )
    assert [jobs.uids(name) for name in there] == uids


def test_a_preview_fails_with_the_servers_words_when_it_refuses_the_job(
    job_name: str, module_stack: JobStack, jobs: Jobs, trainer: str
) -> None:
    """With a cluster it also asks the API server."""
    refused = _declared(trainer, labels=REFUSED)
    said = module_stack.refused("preview", **{job_name: refused})
    assert f"PyTorchJob slipway-jobs/{job_name} would be refused" in said
    assert REFUSAL in said
    assert "Traceback" not in said
    assert jobs.uids(job_name) == []


def test_an_update_keeps_a_success_when_what_would_replace_it_is_refused(
    job_name: str, job_stack: JobStack, jobs: Jobs, trainer: str
) -> None:
    """An update without a preview keeps a success that a refused run would replace."""
    job_stack.train(job_name, **_declared(trainer, workers=0))
    results, uids = _results(job_stack), jobs.uids(job_name)
    refused = _declared(trainer, workers=1, labels=REFUSED)
    said = job_stack.train_in_vain(job_name, **refused)
    assert f"PyTorchJob slipway-jobs/{job_name} would be refused" in said
    assert REFUSAL in said
    assert jobs.uids(job_name) == uids
    assert _results(job_stack) == results


def _results(stack: JobStack) -> list[dict[str, Any]]:
    ours = [each for each in stack.resources if each["type"].startswith("slipway:jobs:")]
    return [each["outputs"]["result"] for each in ours]


@pytest.fixture
def no_cluster(spare_stack: LiveStack) -> LiveStack:
    """A checkout whose stack has never been up."""
    own = Path(spare_stack.scratch.directory) / "Pulumi.dev.yaml"
    own.write_text(
        yaml.safe_dump(
            {
                "config": {
                    "slipway:cluster": {"kind": "embedded"},
                    "slipway:jobs": {"mnist-gloo": {}},
                }
            }
        )
    )
    return spare_stack


def test_make_preview_shows_every_job_before_there_is_a_cluster(no_cluster: LiveStack) -> None:
    """`make preview` without a cluster shows every job's needs."""
    said = no_cluster.run("make preview JOB=mnist-gloo").output
    assert "needs 4 pods with 1.6 cores, 3 GiB in total; runs for at most 24 h; not val" in said
    assert re.search(r"the cluster has 1 node with [\d.]+ cores, [\d.]+ GiB for jobs", said)
    begin = said.index("apiVersion: kubeflow.org/v1")
    assert "kind: PyTorchJob" in said[begin:]
    assert "slipway_trainer.mnist" in said[begin:]
    assert "image: localhost/slipway-trainer:" in said[begin:]
    assert not (no_cluster.scratch.state_home / "slipway/clusters/dev").exists()
