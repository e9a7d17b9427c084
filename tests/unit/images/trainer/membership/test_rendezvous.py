"""Workers come together again and again, each with a board on a port of its own."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from socket import create_server

import pytest

from slipway_trainer.membership import rendezvous
from slipway_trainer.membership.board import Record
from slipway_trainer.membership.rendezvous import JobDone, Rendezvous, Sight
from slipway_trainer.membership.settings import ElasticSettings

Start = Callable[[int], Rendezvous]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Start:
    """Starts the worker of an index, of three."""
    for name in ("GRACE_SECONDS", "LAST_CALL_SECONDS"):
        monkeypatch.setattr(rendezvous, name, 1.0)
    ports = []
    for _ in range(3):
        with create_server(("127.0.0.1", 0)) as free:
            ports.append(("127.0.0.1", free.getsockname()[1]))

    def started(index: int) -> Rendezvous:
        return Rendezvous(ElasticSettings(index, tuple(ports), 1, 0), 29500 + index)

    return started


def _meet(*workers: Rendezvous, least: int = 1) -> Record:
    """Return the world that all of `workers` come to."""
    with ThreadPoolExecutor(len(workers)) as pool:
        found = [*pool.map(partial(Rendezvous.next_world, seconds=20, least=least), workers)]
    assert len({record.generation for record, _ in found}) == 1
    assert len({port for _, (_, port) in found}) == 1
    for worker, (record, _) in zip(workers, found, strict=True):
        worker.publish(record)
    return found[0][0]


def _isolate(
    worker: Rendezvous, others: Sequence[Rendezvous], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From here on `worker` gets no answer from any but `others`."""
    look, seen = worker.look, {each.me for each in others}

    def limited() -> dict[str, Sight]:
        return {who: sight for who, sight in look().items() if who in seen}

    monkeypatch.setattr(worker, "look", limited)


def test_the_first_world_does_not_wait_longer_than_a_grace_time(start: Start) -> None:
    workers = start(0), start(2)
    assert _meet(*reversed(workers), least=2) == Record(1, tuple(each.me for each in workers))


def test_the_next_member_becomes_the_host(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    workers = [start(index) for index in range(3)]
    _meet(*workers)
    left = workers[1:]
    for each in left:
        _isolate(each, left, monkeypatch)
    assert _meet(*left) == Record(2, tuple(each.me for each in left))


def test_a_member_that_answers_and_hangs_is_left_out_and_comes_back(start: Start) -> None:
    workers = [start(index) for index in range(3)]
    _meet(*workers)
    others = [workers[0], workers[2]]
    assert _meet(*others) == Record(2, (workers[0].me, workers[2].me))
    assert not workers[0].newcomers()
    with ThreadPoolExecutor(1) as pool:
        back = pool.submit(workers[1].next_world, 20, 1)
        until = time.monotonic() + 10
        while not workers[0].newcomers() and time.monotonic() < until:
            time.sleep(0.05)
        assert len(_meet(*others).members) == 3
        assert back.result()[0] == Record(3, tuple(each.me for each in workers))


def test_a_world_that_did_not_hold_is_followed_by_a_newer_one(start: Start) -> None:
    workers = [start(index) for index in range(3)]
    with ThreadPoolExecutor(3) as pool:
        for generation in (1, 2):
            found = [*pool.map(lambda each: each.next_world(20, 1), workers)]
            assert [record.generation for record, _ in found] == [generation] * 3


def test_too_few_are_named_after_the_limit(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "PATIENCE_SECONDS", 0.5)
    worker = start(1)
    with pytest.raises(
        TimeoutError, match=r"a world of at least 2 workers; responding: 1; not responding: 0 \(127"
    ):
        worker.next_world(0.1, 2)


def test_who_comes_when_all_is_done_gets_what_it_came_to(start: Start) -> None:
    first = start(0)
    _meet(first)
    first.conclude({"size": 1})
    with pytest.raises(JobDone) as done:
        start(1).next_world(20, 1)
    assert done.value.outcome == {"size": 1}
    first.linger({1}, 20)
    assert first.board.informed >= {1}
