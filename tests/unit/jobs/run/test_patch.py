"""What a change in place leaves alone of a live job: what a user or Kueue has set."""

from typing import Any, cast

from hypothesis import given, settings

from jobs.api.client import JobApi
from jobs.model.job import TrainingJob
from jobs.model.manifest import manifest
from jobs.model.pytorchjob import QUEUE_LABEL
from jobs.run.patch import patch_in_place
from tests.unit.jobs_declared import jobs, submitted


class Live:
    """A job that takes patches, and has no pods."""

    def __init__(self) -> None:
        self.patches: list[dict[str, Any]] = []

    def pods(self) -> list[dict[str, Any]]:
        return []

    def patch(self, change: dict[str, Any]) -> None:
        self.patches.append(change)


@settings(deadline=None, max_examples=60)
@given(before=jobs, now=jobs)
def test_no_change_resumes_or_moves_a_suspended_job(before: TrainingJob, now: TrainingJob) -> None:
    """Kueue refuses to change the label of a job that is not suspended: all else would fail."""
    old, new = (manifest(submitted(each)) for each in (before, now))
    for queue, each in (("a", old), ("b", new)):
        each["metadata"]["labels"][QUEUE_LABEL] = queue
    existing = manifest(submitted(before))
    existing["spec"]["runPolicy"]["suspend"] = True
    live = Live()
    patch_in_place(cast("JobApi", live), old, new)
    patch_in_place(cast("JobApi", live), existing, new, removing=False)
    for change in live.patches:
        assert "suspend" not in change.get("spec", {}).get("runPolicy", {})
        assert QUEUE_LABEL not in change.get("metadata", {}).get("labels", {})
