"""A claim of a job's own: what is in it outlives the job, and another stack's is not touched."""

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from clusters.cluster import JOBS
from core.manifests import MADE_BY
from jobs.model.job import TrainingJob
from jobs.model.parts import Volume
from jobs.model.volumes import claims
from jobs.run.claim import ClaimHandler
from tests.engine.awaiting import await_true
from tests.engine.pytorchjob_stack import Jobs
from tests.runs.runner import Recorded

CLAIM = ClaimHandler()


@pytest.fixture
def inputs(job_name: str, kubeconfig: str, jobs: Jobs) -> Iterator[dict[str, Any]]:
    """What is asked for a volume of 10 MiB; its claim is removed afterwards."""
    volumes = {"results": Volume(size="10Mi", mount_path="/results")}
    ((claim, _),) = claims(TrainingJob(name=job_name, module="mnist", volumes=volumes), JOBS)
    claim["metadata"]["annotations"][MADE_BY] = "slipway/test"
    yield {"manifest": claim, "kubeconfig": kubeconfig}
    jobs.kubectl("delete", "pvc", claim["metadata"]["name"], "--ignore-not-found")


def found(jobs: Jobs, inputs: dict[str, Any]) -> dict[str, Any]:
    text = jobs.kubectl("get", "pvc", inputs["manifest"]["metadata"]["name"], "--output=json")
    return dict(json.loads(text))


def test_a_job_that_comes_back_finds_its_claim(jobs: Jobs, inputs: dict[str, Any]) -> None:
    """The claim of a volume outlives its job; one that is not kept goes."""
    first, again = Recorded("urn:first"), Recorded("urn:again")
    CLAIM.create(inputs, first)
    uid = found(jobs, inputs)["metadata"]["uid"]
    assert first.lines == []
    CLAIM.create(inputs, again)
    assert found(jobs, inputs)["metadata"]["uid"] == uid
    assert "adopted with its files" in again.lines[0]
    assert CLAIM.read(inputs, again) == {}
    CLAIM.delete(inputs, again)
    assert CLAIM.read(inputs, again) is None
    CLAIM.delete(inputs, again)


def test_a_claim_that_the_stack_has_not_made_is_left_alone(
    jobs: Jobs, inputs: dict[str, Any]
) -> None:
    foreign = deepcopy(inputs)
    foreign["manifest"]["metadata"]["annotations"][MADE_BY] = "slipway/other"
    CLAIM.create(foreign, Recorded("urn:other"))
    name = inputs["manifest"]["metadata"]["name"]
    with pytest.raises(RuntimeError, match=rf"created by slipway/other.*`claim: {name}`"):
        CLAIM.create(inputs, Recorded("urn:mine"))
    assert found(jobs, inputs)["metadata"]["annotations"][MADE_BY] == "slipway/other"


def test_a_size_that_the_storage_class_refuses_fails_with_its_reason(
    jobs: Jobs, inputs: dict[str, Any]
) -> None:
    context = Recorded("urn:mine")
    CLAIM.create(inputs, context)
    # Of one that has no volume yet, the API server refuses it in other words.
    await_true(lambda: found(jobs, inputs)["status"]["phase"] == "Bound")
    larger = deepcopy(inputs)
    larger["manifest"]["spec"]["resources"]["requests"]["storage"] = "20Mi"
    [change] = CLAIM.diff(inputs, larger, context)
    assert not change.replace
    with pytest.raises(RuntimeError, match=r"was refused: .*resize"):
        CLAIM.update(inputs, larger, context)
    assert found(jobs, inputs)["spec"]["resources"]["requests"]["storage"] == "10Mi"
