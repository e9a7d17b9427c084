"""A feed keeps every rank's log and passes on that of the one that speaks for the run."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from jobs.api.client import JobApi
from jobs.api.lines import Line
from jobs.api.streams import See
from jobs.observe.feed import Feed
from jobs.observe.progress import Progress
from jobs.observe.run_state import RunState
from jobs.records.archive import Archive
from tests.unit.jobs_objects import RUNNING, ended, job, pod


def line(second: int, text: str) -> Line:
    return Line(f"2026-01-01T00:00:{second:02}.000000000Z", text)


@contextmanager
def listed(objects: Callable[[], list[dict[str, Any]]], see: See) -> Iterator[None]:
    """Stand in for a watch: pass on what there is now and then, until the block ends."""
    ended = threading.Event()

    def watch() -> None:
        see(objects())
        while not ended.wait(0.05):
            see(objects())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class Ranks:
    """A job whose pods are as they are told to be, and whose logs have a line each second."""

    name, namespace = "mine", "slipway-jobs"

    def __init__(self, *pods: dict[str, Any], lines: int) -> None:
        self.there = [labelled(each) for each in pods]
        self.count = lines

    def pods(self) -> list[dict[str, Any]]:
        return self.there

    def get(self, name: str) -> dict[str, Any] | None:
        return next((each for each in self.there if each["metadata"]["name"] == name), None)

    def watch_job(self, see: See, _failed: See) -> AbstractContextManager[None]:
        return listed(list, see)

    def watch_pods(self, see: See, _failed: See) -> AbstractContextManager[None]:
        return listed(self.pods, see)

    def log_lines(
        self, pod: str, *, since: str | None = None, follow: bool = False, **_: Any
    ) -> Iterator[list[Line]]:
        yield []
        lines = [line(second, f"{pod} {second}") for second in range(self.count)]
        yield [each for each in lines if each.stamp[:19] >= (since or "")[:19]]
        while follow and self.there:
            time.sleep(0.01)


def submitted(**fields: Any) -> dict[str, Any]:
    there = job("Running", **fields)
    there["metadata"]["labels"] = {"slipway.dev/run": "mine-1"}
    return there


def labelled(there: dict[str, Any], run: str = "mine-1") -> dict[str, Any]:
    there["metadata"]["labels"]["slipway.dev/run"] = run
    return there


class Heard(Progress):
    """The lines that a run's progress is made of."""

    def __init__(self, world_size: int) -> None:
        super().__init__(world_size)
        self.lines: list[str] = []

    def see(self, line: str) -> None:
        self.lines.append(line)


def spoken(api: Ranks, expected: int, tmp_path: Path, **fields: Any) -> list[str]:
    """Return what is passed on, having waited for so many lines, and a moment for more."""
    kept = Archive(tmp_path / "mine").run("mine-1")
    run = RunState(submitted(**fields))
    run.progress = heard = Heard(world_size=1)
    with Feed(cast("JobApi", api), run, kept, pytest.fail) as feed:
        deadline = time.monotonic() + 5
        while len(heard.lines) < expected:
            assert time.monotonic() < deadline, heard.lines
            feed.process(0.1)
        feed.finish(5)
        feed.process(0.1)
    api.there.clear()
    return heard.lines


def kept(tmp_path: Path) -> dict[int, list[str]]:
    [run] = Archive(tmp_path / "mine").runs()
    return {log.replica: [each.text for each in log.lines()] for log in run.logs()}


def test_every_ranks_log_is_kept_and_rank_0_speaks(tmp_path: Path) -> None:
    api = Ranks(pod(0, state=RUNNING), pod(1, state=RUNNING), lines=3)
    first = [f"mine-master-0 {second}" for second in range(3)]
    assert spoken(api, 3, tmp_path) == first
    assert kept(tmp_path) == {0: first, 1: [f"mine-worker-0 {second}" for second in range(3)]}


def test_a_wait_that_is_taken_up_again_hears_all_and_keeps_nothing_twice(tmp_path: Path) -> None:
    spoken(Ranks(pod(0, state=RUNNING), lines=2), 2, tmp_path, workers=0)
    again = spoken(Ranks(pod(0, state=RUNNING), lines=4), 4, tmp_path, workers=0)
    assert again == [f"mine-master-0 {second}" for second in range(4)]
    assert kept(tmp_path) == {0: again}


class Held(Ranks):
    """Of these ranks the last one is held."""

    def log_lines(self, pod: str, **options: Any) -> Iterator[list[Line]]:
        if pod == self.there[-1]["metadata"]["name"]:
            ended = {"exitCode": 3, "finishedAt": "2026-01-01T00:00:09Z", "message": "{}"}
            event = {"event": "held", "until": "12:00:00 UTC", "terminated": ended}
            yield [line(9, json.dumps(event))]
        yield from super().log_lines(pod, **options)


def test_a_held_rank_is_heard_of_when_a_wait_is_resumed(tmp_path: Path) -> None:
    of = submitted()
    of["spec"]["env"] = "SLIPWAY_HOLD"
    for _ in range(2):
        api = Held(pod(0, state=RUNNING), pod(1, state=RUNNING), lines=1)
        run = RunState(of)
        with Feed(cast("JobApi", api), run, Archive(tmp_path).run("mine-1"), pytest.fail) as feed:
            deadline = time.monotonic() + 5
            while not run.held:
                assert time.monotonic() < deadline
                feed.process(0.1)
        api.there.clear()
        assert [*run.held] == [1]


def test_of_an_elastic_job_whose_first_worker_is_lost_the_next_one_speaks(tmp_path: Path) -> None:
    gone = pod(0, state=ended(137, container="containerd://gone"), master=False)
    there = pod(1, state=RUNNING, master=False)
    said = spoken(Ranks(gone, there, lines=2), 2, tmp_path, elastic=True, workers=2)
    assert said == ["mine-worker-1 0", "mine-worker-1 1"]
    assert kept(tmp_path)[0] == ["mine-worker-0 0", "mine-worker-0 1"]


def test_pods_of_another_job_of_that_name_are_not_listened_to(tmp_path: Path) -> None:
    api = Ranks(pod(1, state=RUNNING), lines=1)
    api.there.append(labelled(pod(0, state=RUNNING), run="mine-2"))
    run = Archive(tmp_path / "mine").run("mine-1")
    with Feed(cast("JobApi", api), RunState(submitted()), run, pytest.fail) as feed:
        for _ in range(5):
            feed.process(0.1)
        feed.finish(5)
    api.there.clear()
    assert kept(tmp_path) == {1: ["mine-worker-0 0"]}
