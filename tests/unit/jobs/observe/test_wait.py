"""A wait keeps every rank's log, shows that of the one that speaks for the run, and ends with it.

Without a cluster: a double stands for the API server.
"""

import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import pytest

from jobs.api.client import JobApi
from jobs.api.lines import Line
from jobs.api.streams import See
from jobs.model.parts import Checkpoint, OnFailure
from jobs.observe.feed import Feed
from jobs.observe.run_state import RunState
from jobs.observe.wait import InterruptedWait, Wait
from jobs.records.archive import INTERRUPTED, Archive, Run, entries
from tests.unit.images.objects import Listener
from tests.unit.jobs_objects import (
    RUNNING,
    beside,
    clock,
    declared,
    done,
    ended,
    job,
    pod,
    runs,
    summary,
)
from tests.unit.not_none import not_none


@dataclass
class Api:
    """An API server with a job and its pods; a log that is followed lasts until they are gone."""

    there: list[dict[str, Any]]
    logs: dict[str, list[str]] = field(default_factory=dict)
    """The lines of each pod, one a second."""
    job: dict[str, Any] = field(default_factory=lambda: job("Running"))
    seconds: float = 0.0
    deleted: bool = False
    stopped: list[str] = field(default_factory=list)
    name: str = "mine"
    namespace: str = "slipway-jobs"

    def pods(self) -> list[dict[str, Any]]:
        return self.there

    def get(self, name: str) -> dict[str, Any] | None:
        return next((each for each in self.there if each["metadata"]["name"] == name), None)

    def age(self, _job: dict[str, Any]) -> float:
        return self.seconds

    def watch_job(self, see: See, _failed: See) -> AbstractContextManager[None]:
        see([self.job])
        return nullcontext()

    def watch_pods(self, see: See, _failed: See) -> AbstractContextManager[None]:
        see([*self.there])
        return nullcontext()

    def log_lines(
        self, pod: str, *, since: str | None = None, follow: bool = False, **_: Any
    ) -> Iterator[list[Line]]:
        assert not self.deleted, "logs are read before their pods are stopped"
        yield []
        texts = enumerate(self.logs.get(pod, ()))
        lines = [Line(f"2026-01-01T00:00:{at:02}.000000000Z", text) for at, text in texts]
        yield [each for each in lines if each.stamp[:19] >= (since or "")[:19]]
        while follow and self.there and not self.stopped:
            time.sleep(0.01)

    def nodes(self, _seconds: float = 0) -> list[dict[str, Any]]:
        return []

    def events(self, _uids: set[str], _seconds: float = 0) -> list[dict[str, Any]]:
        return []

    def delete(self) -> None:
        self.deleted = True

    def patch(self, change: object, name: str) -> None:
        assert change == {"spec": {"activeDeadlineSeconds": 1}}
        self.stopped.append(name)


def feed(api: Api, run: RunState, kept: Run, until: Callable[[], object]) -> None:
    """Feed a run until something holds, and read the rest of its logs."""
    with Feed(cast("JobApi", api), run, kept, pytest.fail) as made:
        deadline = time.monotonic() + 5
        while not until():
            assert time.monotonic() < deadline
            made.process(0.1)
        made.finish(5)
        made.process(0.1)
    api.there.clear()


def spoken(api: Api, expected: int, kept: Run, **fields: Any) -> list[str]:
    """Return what is passed on, having waited for so many lines, and a moment for more."""
    run, heard = RunState(job("Running", **fields)), list[str]()
    with patch.object(run.progress, "see", heard.append):
        feed(api, run, kept, lambda: len(heard) >= expected)
    return heard


def texts(kept: Run) -> dict[int, list[str]]:
    return {log.replica: [each.text for each in log.lines()] for log in kept.logs()}


def test_every_ranks_log_is_kept_once_and_rank_0_speaks(tmp_path: Path) -> None:
    """A wait that is taken up again hears all of it again."""
    kept, logs = Run(tmp_path), {"mine-master-0": ["a", "b"], "mine-worker-0": ["other"]}
    assert spoken(Api([runs(0), runs(1)], logs), 2, kept) == ["a", "b"]
    logs["mine-master-0"] += ["c", "d"]
    assert spoken(Api([runs(0), runs(1)], logs), 4, kept) == ["a", "b", "c", "d"]
    assert texts(kept) == {0: ["a", "b", "c", "d"], 1: ["other"]}


def test_of_an_elastic_job_whose_first_worker_is_lost_the_next_one_speaks(tmp_path: Path) -> None:
    gone = pod(0, state=ended(137, container="containerd://gone"), master=False)
    api = Api([gone, pod(1, state=RUNNING, master=False)])
    api.logs = {"mine-worker-0": ["of 0"], "mine-worker-1": ["of 1"]}
    assert spoken(api, 1, Run(tmp_path), elastic=True, workers=2) == ["of 1"]
    assert texts(Run(tmp_path))[0] == ["of 0"]


def test_pods_of_another_run_are_not_listened_to(tmp_path: Path) -> None:
    kept, foreign = Archive(tmp_path).run("mine-1"), runs(0)
    foreign["metadata"]["labels"]["slipway.dev/run"] = "mine-2"
    api = Api([runs(1), foreign], {"mine-master-0": ["foreign"], "mine-worker-0": ["own"]})
    feed(api, RunState(job("Running")), kept, lambda: texts(kept))
    assert texts(kept) == {1: ["own"]}


def wait(api: Api, row: Listener, kept: Path, **fields: Any) -> Wait:
    return Wait(cast("JobApi", api), job("Running"), declared(**fields), row, Run(kept))


def test_what_was_seen_of_a_run_is_shown_and_kept_with_its_end(tmp_path: Path) -> None:
    """It is older than the limit for its start, and its result has values that none can hold."""
    logs = {"mine-master-0": ['{"event": "warning", "warning": "not copied: \'noread\'"}']}
    api, row = Api([done(0, accuracy=math.nan, torch=["2.6"]), done(1)], logs), Listener()
    api.job, api.seconds = job("Succeeded"), 400
    found = wait(api, row, tmp_path, debug=1).to_the_end()
    assert (found.succeeded, found.accuracy, found.torch, api.deleted) == (True, None, None, False)
    assert "not copied: 'noread'" in row.lines
    assert "rank 1 is waiting for a debugger: `make debug JOB=mine`" in row.lines
    [warning] = [each for each in row.lines if "the result omits" in each]
    assert 'torch is ["2.6"]' in warning
    kept = [(entry["kind"], entry["about"]) for entry in entries(Run(tmp_path).timeline)]
    assert ("condition", "PyTorchJob mine") in kept
    assert ("container", "rank 1 (mine-worker-0)") in kept
    assert kept[-1] == ("end", "Succeeded")


def test_an_adopted_elastic_run_is_not_stopped_while_a_replacement_waits(tmp_path: Path) -> None:
    pods = [pod(0, state=RUNNING, master=False), pod(1, phase="Pending", master=False)]
    api, row, of = Api(pods), Listener(), job("Running", workers=2, elastic=True)
    api.job, api.seconds = of, 400
    row.cancelled.set()
    with pytest.raises(InterruptedWait):
        Wait(cast("JobApi", api), of, declared(), row, Run(tmp_path)).to_the_end()
    assert not api.deleted


def test_pods_that_another_container_keeps_are_read_and_stopped(tmp_path: Path) -> None:
    """Ranks end, and a container that a webhook added to their pods does not."""
    pods = [beside(pod(rank, state=ended(0, summary(rank)))) for rank in (0, 1)]
    api, row = Api(pods, {"mine-master-0": ["its log"]}), Listener()
    result = wait(api, row, tmp_path).to_the_end()
    assert (result.state, result.accuracy) == ("Succeeded", 0.97)
    assert "proxy" in str(result.reason)
    assert any("container proxy was still running in 2 pods" in each for each in row.lines)
    assert api.deleted
    assert texts(Run(tmp_path))[0] == ["its log"]


def test_a_rank_that_is_held_stays_and_the_others_are_stopped(tmp_path: Path) -> None:
    """Also by a wait that is resumed, when the operator has called the job failed."""
    exit_ = {"exitCode": 3, "finishedAt": clock(21), "message": '{"error": "bad"}'}
    event = {"event": "held", "until": "12:00:00 UTC", "terminated": exit_}
    for condition in ("Running", "Failed"):
        api = Api([runs(0), runs(1), runs(2)], {"mine-worker-0": [json.dumps(event)]})
        begun, api.job = job("Running", workers=2), job(condition, workers=2)
        begun["spec"]["env"] = api.job["spec"]["env"] = "SLIPWAY_HOLD"
        own = declared(on_failure=OnFailure(hold=60))
        result = Wait(cast("JobApi", api), begun, own, Listener(), Run(tmp_path)).to_the_end()
        assert (result.state, result.exit_codes) == ("Failed", {"1": 3})
        assert result.reason == "rank 1 (mine-worker-0) exited with code 3: bad"
        failure = not_none(result.failure)
        way = "inspect its pod with `make shell JOB=mine RANK=1` until 12:00:00 UTC, "
        assert str(failure.advice).startswith(way)
        assert failure.log == [], "without the launcher's own line"
        assert api.stopped == ["mine-master-0", "mine-worker-1"]
        assert not api.deleted


@pytest.mark.parametrize(
    ("checkpoint", "begins"),
    [(None, "the beginning"), (Checkpoint(), "its newest checkpoint, if it has one")],
)
def test_ctrl_cs_effect_is_printed_and_kept(
    checkpoint: Checkpoint | None, begins: str, tmp_path: Path
) -> None:
    api, row = Api([runs(0), runs(1)]), Listener()
    row.cancelled.set()
    with pytest.raises(InterruptedWait) as said:
        wait(api, row, tmp_path, on_cancel="delete", checkpoint=checkpoint).to_the_end()
    then = f"it, as `onCancel` requests; the next `make up` trains from {begins}"
    assert str(said.value).endswith(f"mine and deleted {then}")
    assert api.deleted
    ended = entries(Run(tmp_path).timeline)[-1]
    assert (ended["about"], ended["text"]) == (INTERRUPTED, f"Ctrl-C deleted {then}")
