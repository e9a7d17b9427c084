"""A wait that is taken up again, without a cluster."""

import json
import math
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, cast

import pytest

from jobs.api.client import JobApi
from jobs.api.lines import Line
from jobs.api.streams import See
from jobs.model.parts import Checkpoint, OnFailure
from jobs.observe.wait import InterruptedWait, Wait
from jobs.records.archive import INTERRUPTED, Run, entries
from tests.unit.images.objects import Listener
from tests.unit.jobs.observe.test_feed import labelled, listed
from tests.unit.jobs.run.test_lifecycle import Quiet
from tests.unit.jobs_objects import RUNNING, declared, ended, job, pod, summary


class Running:
    """A job whose pods have run for long, and that succeeds once it is watched."""

    name, namespace = "mine", "slipway-jobs"

    def __init__(self, **reported: Any) -> None:
        self.reported = reported
        self.deleted = False
        self.listed = 0
        self.seconds = 0.0

    def pods(self) -> list[dict[str, Any]]:
        self.listed += 1
        if self.listed == 1:
            return [pod(0, state=RUNNING), pod(1, state=RUNNING)]
        states = [ended(0, summary(rank, **self.reported)) for rank in (0, 1)]
        return [pod(rank, state=each, phase="Succeeded") for rank, each in enumerate(states)]

    def age(self, _job: dict[str, Any]) -> float:
        return self.seconds

    def watch_job(self, see: See, _failed: See) -> AbstractContextManager[None]:
        return listed(lambda: [job("Succeeded")], see)

    def watch_pods(self, see: See, _failed: See) -> AbstractContextManager[None]:
        return listed(self.pods, see)

    def log_lines(self, _pod: str, **_: Any) -> Iterator[list[Line]]:
        yield from ()

    def nodes(self, _seconds: float = 0) -> list[dict[str, Any]]:
        return []

    def events(self, _uids: set[str], _seconds: float = 0) -> list[dict[str, Any]]:
        return []

    def delete(self) -> None:
        self.deleted = True


def test_a_run_that_is_older_than_the_limit_for_its_start_is_waited_for(tmp_path: Path) -> None:
    api = Running()
    api.seconds = 400
    kept = Run(tmp_path)
    waiting = Wait(cast("JobApi", api), job("Running"), declared(), Quiet(), kept)
    assert waiting.to_the_end().succeeded
    assert not api.deleted


def test_a_result_that_cannot_be_held_is_a_warning(tmp_path: Path) -> None:
    api, row = cast("JobApi", Running(accuracy=math.nan, torch=["2.6"])), Listener()
    kept = Run(tmp_path)
    found = Wait(api, job("Running"), declared(), row, kept).to_the_end()
    assert (found.succeeded, found.accuracy, found.torch) == (True, None, None)
    [warning] = [each for each in row.lines if "the result omits" in each]
    assert 'torch is ["2.6"]' in warning
    assert "accuracy is NaN" in warning


def test_what_was_seen_of_a_run_is_kept_with_its_end(tmp_path: Path) -> None:
    kept = Run(tmp_path)
    api = cast("JobApi", Running())
    Wait(api, job("Running"), declared(), Quiet(), kept).to_the_end()
    found = [(entry["kind"], entry["about"]) for entry in entries(kept.timeline)]
    assert ("condition", "PyTorchJob mine") in found
    assert ("container", "rank 1 (mine-worker-0)") in found
    assert found[-1] == ("end", "Succeeded")


class Warned(Running):
    """A job whose rank 0 reports that a file of its outputs is not copied."""

    def log_lines(self, _pod: str, **_: Any) -> Iterator[list[Line]]:
        event = '{"event": "warning", "warning": "not copied: \'noread\'"}'
        yield [Line("2026-01-01T00:00:01.000000000Z", event)]

    def get(self, pod: str) -> dict[str, Any]:
        return next(each for each in self.pods() if each["metadata"]["name"] == pod)


def test_what_the_image_warns_of_is_shown_with_the_success(tmp_path: Path) -> None:
    api, row = cast("JobApi", Warned()), Listener()
    kept = Run(tmp_path)
    assert Wait(api, job("Running"), declared(), row, kept).to_the_end().succeeded
    assert "not copied: 'noread'" in row.lines


class Outlasted(Running):
    """A job whose ranks end while a container that a webhook added to their pods does not."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[str] = []

    def pods(self) -> list[dict[str, Any]]:
        pods = [pod(rank, state=ended(0, summary(rank))) for rank in (0, 1)]
        for each in pods:
            statuses = each["status"]["containerStatuses"]
            statuses.append({"name": "proxy", "image": "proxy:1", "state": RUNNING})
        return pods

    def watch_job(self, see: See, _failed: See) -> AbstractContextManager[None]:
        return listed(lambda: [job("Running")], see)

    def log_lines(self, _pod: str, **_: Any) -> Iterator[list[Line]]:
        assert not self.deleted, "its logs are read before its pods are stopped"
        self.read.append(_pod)
        yield from ()


def test_pods_that_another_container_keeps_are_read_and_stopped(tmp_path: Path) -> None:
    api, row = Outlasted(), Listener()
    kept = Run(tmp_path)
    waiting = Wait(cast("JobApi", api), job("Running"), declared(), row, kept)
    result = waiting.to_the_end()
    assert (result.state, result.accuracy) == ("Succeeded", 0.97)
    assert "proxy" in str(result.reason)
    assert any("container proxy was still running in 2 pods" in each for each in row.lines)
    assert api.deleted
    assert api.read


class Held(Running):
    """A job whose rank 1 is held, while the others go on."""

    def __init__(self, *conditions: str) -> None:
        super().__init__()
        self.conditions = conditions
        self.stopped: list[tuple[str, object]] = []

    def pods(self) -> list[dict[str, Any]]:
        return [labelled(pod(rank, state=RUNNING)) for rank in range(3)]

    def watch_job(self, see: See, _failed: See) -> AbstractContextManager[None]:
        return listed(lambda: [of_held(*self.conditions)], see)

    def log_lines(self, _pod: str, **_: Any) -> Iterator[list[Line]]:
        if _pod == "mine-worker-0":
            message = json.dumps({"rank": 1, "error": "ValueError: bad"})
            ended = {"exitCode": 3, "finishedAt": "2026-01-01T00:00:21Z", "message": message}
            event = {"event": "held", "until": "12:00:00 UTC", "terminated": ended}
            yield [Line("2026-01-01T00:00:22.000000000Z", json.dumps(event))]
        while not self.stopped:  # as a log that is followed
            time.sleep(0.01)

    def get(self, name: str) -> dict[str, Any]:
        return next(each for each in self.pods() if each["metadata"]["name"] == name)

    def patch(self, change: object, name: str) -> None:
        self.stopped.append((name, change))


def of_held(*conditions: str) -> dict[str, Any]:
    of = job(*conditions, workers=2)
    of["spec"]["env"], of["metadata"]["labels"] = "SLIPWAY_HOLD", {"slipway.dev/run": "mine-1"}
    return of


@pytest.mark.parametrize("condition", ["Running", "Failed"])
def test_only_ranks_that_are_not_held_are_stopped(condition: str, tmp_path: Path) -> None:
    stop = {"spec": {"activeDeadlineSeconds": 1}}
    api = Held(condition)
    wait = Wait(
        cast("JobApi", api),
        of_held("Running"),
        declared(on_failure=OnFailure(hold=60)),
        Quiet(),
        Run(tmp_path),
    )
    result = wait.to_the_end()
    assert (result.state, result.exit_codes) == ("Failed", {"1": 3})
    assert result.reason == "rank 1 (mine-worker-0) exited with code 3: ValueError: bad"
    assert result.failure is not None
    assert (result.failure.rank, result.failure.exit_code) == (1, 3)
    way = "inspect its pod with `make shell JOB=mine RANK=1` until 12:00:00 UTC, "
    assert str(result.failure.advice).startswith(way)
    assert result.failure.log == [], "without the launcher's own line"
    assert api.stopped == [("mine-master-0", stop), ("mine-worker-1", stop)]
    assert not api.deleted


def test_a_rank_that_waits_for_a_debugger_shows_the_command(tmp_path: Path) -> None:
    row = Listener()
    own = declared(debug=1)
    assert Wait(cast("JobApi", Running()), job(), own, row, Run(tmp_path)).to_the_end().succeeded
    assert "rank 1 is waiting for a debugger: `make debug JOB=mine`" in row.lines


class GoingOn(Running):
    """A job that runs on."""

    def pods(self) -> list[dict[str, Any]]:
        return [pod(rank, state=RUNNING) for rank in (0, 1)]

    def watch_job(self, see: See, _failed: See) -> AbstractContextManager[None]:
        return listed(lambda: [job("Running")], see)


@pytest.mark.parametrize(
    ("resumes", "begins"),
    [(False, "the beginning"), (True, "its newest checkpoint, if it has one")],
)
def test_ctrl_cs_effect_is_printed_and_kept(resumes: bool, begins: str, tmp_path: Path) -> None:
    api, row = GoingOn(), Listener()
    row.cancelled.set()
    own = declared(on_cancel="delete", checkpoint=Checkpoint() if resumes else None)
    kept = Run(tmp_path)
    wait = Wait(cast("JobApi", api), job(), own, row, kept)
    with pytest.raises(InterruptedWait) as said:
        wait.to_the_end()
    then = f"it, as `onCancel` requests; the next `make up` trains from {begins}"
    assert str(said.value).endswith(f"mine and deleted {then}")
    assert api.deleted
    ended = entries(kept.timeline)[-1]
    assert (ended["about"], ended["text"]) == (INTERRUPTED, f"Ctrl-C deleted {then}")
