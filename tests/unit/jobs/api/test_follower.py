"""Logs are read in few threads, each to its end, whatever happens to the connection."""

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from kubernetes.client.exceptions import ApiException

from jobs.api import follower
from jobs.api.client import JobApi, Unreachable
from jobs.api.follower import LIVE, Container, Follower
from jobs.api.lines import Cursor, Line
from jobs.model.pytorchjob import Topology
from jobs.observe.replica import containers, starts_in
from tests.unit.jobs.api.test_watches import until
from tests.unit.jobs_objects import RUNNING, ended, pod, waiting


@dataclass
class Logs:
    """An API server with logs of pods, each of which has one container of the pod's name."""

    lines: dict[str, list[Line]] = field(default_factory=dict)
    open_ended: set[str] = field(default_factory=set)
    """Pods whose log does not end while it is followed."""
    refused: dict[str, list[Exception]] = field(default_factory=dict)
    started_again: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def log_lines(
        self, pod: str, *, since: str | None = None, previous: bool = False, follow: bool = False
    ) -> Iterator[list[Line]]:
        with self._lock:
            self.asked.append(pod)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if self.refused.get(pod):
                raise self.refused[pod].pop()
            yield []
            there = self.lines.get(f"{pod} of before" if previous else pod, [])
            yield [each for each in there if each.stamp[:19] >= (since or "")[:19]]
            sent = len(there)
            while follow and pod in self.open_ended:
                time.sleep(0.01)
                if len(there) > sent:
                    yield there[sent:]
                    sent = len(there)
        finally:
            with self._lock:
                self.at_once -= 1

    def get(self, name: str) -> dict[str, Any]:
        id_ = self.started_again.get(name, name)
        before = ended(1, container=f"containerd://{name}") if id_ != name else None
        there = pod(0, state=RUNNING, last=before)
        there["status"]["containerStatuses"][0]["containerID"] = f"containerd://{id_}"
        return there


@dataclass
class Taken:
    """What was read of each container."""

    lines: dict[str, list[Line]] = field(default_factory=dict)

    def begin(self, container: Container) -> Cursor:
        return Cursor()

    def take(self, container: Container, lines: Sequence[Line]) -> None:
        self.lines.setdefault(container.id, []).extend(lines)


def one(name: str, *, is_over: bool = False) -> Container:
    return Container(0, name, name, ended=is_over, previous=False)


def line(number: int) -> Line:
    return Line(f"2026-01-01T00:00:{number // 10:02}.{number % 10}00000000Z", f"line {number}")


@pytest.fixture(name="logs")
def _logs() -> Iterator[Logs]:
    made = Logs()
    yield made
    made.open_ended.clear()


@pytest.fixture(name="taken")
def _taken() -> Taken:
    return Taken()


@pytest.fixture(name="following")
def _following(logs: Logs, taken: Taken, monkeypatch: pytest.MonkeyPatch) -> Follower:
    monkeypatch.setattr(follower, "_PAUSE_SECONDS", 0.05)
    return Follower(cast("JobApi", logs), taken, starts_in)


def test_a_broken_log_goes_on_where_it_was(logs: Logs, taken: Taken, following: Follower) -> None:
    logs.lines["a"] = [line(number) for number in range(40)]
    following.follow([one("a")])
    until(lambda: len(taken.lines.get("a", [])) == 40)
    logs.refused["a"] = [Unreachable("cut"), ApiException(status=500)]
    logs.lines["a"] += [line(number) for number in range(40, 60)]
    assert following.finish([one("a", is_over=True)], 5)
    assert taken.lines["a"] == [line(number) for number in range(60)]
    assert (logs.refused["a"], following.last_error) == ([], "cut")


def test_few_of_many_are_read_at_once(
    logs: Logs, taken: Taken, following: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first ones are followed, the others are read in turns, and all of them to their end."""
    monkeypatch.setattr(follower, "_TURN_SECONDS", 0.05)
    names = [f"rank-{number}" for number in range(300)]
    logs.lines = {name: [line(1)] for name in names}
    logs.open_ended = set(names)
    running = [one(name) for name in names]

    def all_read(count: int) -> bool:
        following.follow(running)
        return len(taken.lines) == 300 and all(len(each) == count for each in taken.lines.values())

    until(lambda: all_read(1), seconds=30)
    for name in names:
        logs.lines[name].append(line(2))
    until(lambda: all_read(2), seconds=30)
    assert {name for name, lasting in following._busy.items() if lasting} == set(names[:LIVE])
    logs.open_ended.clear()
    for name in names:
        logs.lines[name].append(line(3))
    assert following.finish([one(name, is_over=True) for name in names], 30)
    assert all(lines == [line(1), line(2), line(3)] for lines in taken.lines.values())
    assert logs.most_at_once <= LIVE + 16


def test_the_first_ones_are_followed_even_if_others_started_before(
    logs: Logs, taken: Taken, following: Follower
) -> None:
    late, early = one("late"), [one(f"rank-{number}") for number in range(LIVE)]
    logs.lines = {each.id: [line(1)] for each in (late, *early)}
    logs.open_ended = {*logs.lines}
    following.follow(early)
    until(lambda: len(taken.lines) == LIVE)
    following.follow([late, *early])
    logs.lines[early[-1].id].append(line(2))
    until(lambda: early[-1].id not in following._busy)
    following.follow([late, *early])
    until(lambda: taken.lines.get("late") == [line(1)])
    assert following._busy["late"]
    logs.open_ended.clear()
    assert following.finish([replace(each, ended=True) for each in (late, *early)], 5)
    assert taken.lines[early[-1].id] == [line(1), line(2)]


def test_what_runs_at_the_end_is_read_so_far(logs: Logs, taken: Taken, following: Follower) -> None:
    logs.lines, logs.open_ended = {"a": [line(1)], "b": [line(1)]}, {"a", "b"}
    following.follow([one("a")])
    until(lambda: "a" in taken.lines)
    assert following.finish([one("a"), one("b")], 5)
    assert taken.lines == {"a": [line(1)], "b": [line(1)]}


def test_the_end_is_not_waited_for_longer_than_allowed(logs: Logs, following: Follower) -> None:
    logs.refused["a"] = [Unreachable("cut")] * 1000
    began = time.monotonic()
    assert not following.finish([one("a", is_over=True)], 0.3)
    assert time.monotonic() - began < 2


def test_a_container_that_is_gone_is_not_waited_for(
    logs: Logs, taken: Taken, following: Follower
) -> None:
    """One that its pod has started again since is read, and one before that is gone."""
    logs.refused["a"] = [ApiException(status=404)]
    assert following.finish([one("a", is_over=True)], 5)
    logs.lines["b"], logs.started_again["b"] = [line(7)], "another"
    assert following.finish([Container(0, "b", "oldest", ended=True, previous=False)], 5)
    assert taken.lines == {}
    logs.lines["b of before"] = [line(3)]
    following.follow([one("b")])
    until(lambda: logs.asked[1:] == ["b"] * 3 and logs.at_once == 0)
    assert following.finish([one("b", is_over=True)], 5)
    assert taken.lines == {"b": [line(3)]}


def test_an_unexpected_error_is_raised_by_the_next_call(logs: Logs, following: Follower) -> None:
    logs.refused["a"] = [ValueError("odd")]
    following.follow([one("a")])
    until(lambda: not following._busy)
    with pytest.raises(ValueError, match="odd"):
        following.follow([one("a")])


ENDED = ended(1, container="containerd://x")
AGAIN = {"state": RUNNING, "last": ENDED, "restarts": 1}


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ({"state": RUNNING}, [("1-0", False, False)]),
        ({"state": waiting("ContainerCreating")}, []),
        ({"state": ENDED}, [("x", True, False)]),
        (AGAIN, [("x", True, True), ("1-1", False, False)]),
        ({"state": waiting("CrashLoopBackOff"), "last": ENDED}, [("x", True, False)]),
    ],
    ids=["runs", "not started", "ended", "started again", "is to start again"],
)
def test_each_start_of_a_program_is_a_container(
    shown: dict[str, Any], expected: list[tuple[str, bool, bool]]
) -> None:
    found = containers([pod(1, **shown)], Topology(2), run_id=None)
    assert [(each.id, each.ended, each.previous) for each in found] == expected
    assert {(each.replica, each.pod) for each in found} <= {(1, "mine-worker-0")}
