"""Files of jobs that a stack no longer has can be had, and what goes with a stack is named."""

from typing import Any

import pytest

from core import tokens
from jobs.model.places import VOLUME_URL
from scripts.cli.runs import kept, reader_pod
from scripts.cli.runs.fetch import find, folder_of
from scripts.cli.state import StackState
from scripts.cli.terminal import CommandError
from tests.unit.archived_run import remembered
from tests.unit.scripts.cli.runs.test_fetch import job

STATE = StackState("k", "slipway-jobs", {"mine": job({})}, trainer="trainer:2")


def left(name: str, place: str = VOLUME_URL, size: int = 1_000_000) -> dict[str, Any]:
    """Return the result of a run that has left its list and a file."""
    folder = f"{place}/outputs/{name}/{name}-1"
    files = {
        each: {"url": f"{folder}/{each}", "sha256": "0", "bytes": size}
        for each in ("artifacts.json", "model.pt")
    }
    return {"state": "Succeeded", "run_id": f"{name}-1", "artifacts": files}


def test_a_job_that_is_gone_is_read_where_its_files_are_by_any_image_of_slipways() -> None:
    remembered("old-1", left("old"), job="old")
    found, result = find("dev", STATE, "old")
    assert folder_of(found, result) == f"{VOLUME_URL}/outputs/old/old-1"
    pod = reader_pod.manifest(found, "trainer:2")
    assert "slipway-kept" in str(pod["spec"]["volumes"])
    assert pod["metadata"]["namespace"] == "slipway-jobs"


def test_jobs_that_are_gone_are_listed_beside_those_that_are_there() -> None:
    remembered("old-1", left("old"), job="old")
    remembered("mine-1", left("mine"), job="mine")
    with pytest.raises(CommandError, match=r"Jobs in dev: mine\. Former jobs .*: old\.$"):
        find("dev", STATE, "")


def test_what_goes_with_a_stack_is_its_jobs_files_and_mlflows_runs() -> None:
    """Not what a job has left in a store of its own."""
    remembered("old-1", left("old"), job="old")
    jobs = {
        "mine": job(left("mine")),
        "elsewhere": job(left("mine", "s3://bucket"), outputs="s3://bucket"),
    }
    state = StackState("k", "slipway-jobs", jobs, trainer="trainer:2")
    tracked = {"deployment": {"resources": [{"type": tokens.TRACKING_READY}]}}
    names, words = kept.lost_with("dev", state, tracked)
    assert ({*names}, words) == ({"old", "mine"}, "2 jobs' files, 4.0 MB; MLflow's runs")
    assert kept.lost_with("other", StackState(), {}) == ([], "")
