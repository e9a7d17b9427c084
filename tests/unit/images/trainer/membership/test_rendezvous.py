"""Workers come together again and again, each with a board that answers its peers."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from socket import create_connection, create_server

import pytest

from slipway_trainer.membership import board as boards
from slipway_trainer.membership import rendezvous
from slipway_trainer.membership.board import Board, Knock, Record, query, serve, together, within
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


def test_the_first_world_does_not_wait_longer_than_a_grace_time(start: Start) -> None:
    workers = start(0), start(2)
    assert _meet(*reversed(workers), least=2) == Record(1, tuple(each.me for each in workers))


def test_the_next_member_becomes_the_host(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    workers = [start(index) for index in range(3)]
    _meet(*workers)
    lost, *left = workers
    look = Rendezvous.look

    def without_the_first(own: Rendezvous) -> dict[str, Sight]:
        return {who: sight for who, sight in look(own).items() if who != lost.me}

    monkeypatch.setattr(Rendezvous, "look", without_the_first)
    assert _meet(*left) == Record(2, tuple(each.me for each in left))


def test_a_member_that_answers_and_hangs_is_left_out_and_comes_back(start: Start) -> None:
    first, hangs, third = workers = [start(index) for index in range(3)]
    _meet(*workers)
    assert _meet(first, third) == Record(2, (first.me, third.me))
    assert not first.newcomers()
    with ThreadPoolExecutor(1) as pool:
        back = pool.submit(hangs.next_world, 20, 1)
        until = time.monotonic() + 10
        while not first.newcomers() and time.monotonic() < until:
            time.sleep(0.05)
        whole = Record(3, tuple(each.me for each in workers))
        assert _meet(first, third) == back.result()[0] == whole


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
    assert first.board.informed == {1}
    first.linger({1}, 20)


_FIRST, _SECOND, _THIRD = "000000-first", "000001-second", "000002-third"


@pytest.fixture
def board() -> Board:
    return Board(_FIRST, 29500)


@pytest.fixture
def address(board: Board) -> tuple[str, int]:
    """The address that it is served at."""
    with create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    serve(board, port)
    return "127.0.0.1", port


def test_a_world_opens_once_all_expected_knock(board: Board, address: tuple[str, int]) -> None:
    newcomer, member = Knock(0, 2, None), Knock(1, 2, (0, 1))
    assert query(address, _THIRD, newcomer).opening is None
    assert query(address, _SECOND, member).opening is None
    assert board.waiting() == [_THIRD, _SECOND]
    opening = Record(2, (_FIRST, _SECOND, _THIRD))
    assert board.respond(_FIRST, member).opening == opening
    assert board.waiting() == []
    assert query(address, _SECOND, member).opening == opening
    assert board.waiting() == [], "it reads that it is invited, and knocks for no further world"
    assert query(address, _SECOND, Knock(2, 1, ())).opening == Record(3, (_SECOND,))


def test_no_world_opens_with_too_few_and_the_next_is_newer_than_all_that_its_members_know(
    board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = Board(_FIRST, 29500)
    newer.respond(_SECOND, Knock(7, 1, None))
    assert newer.respond(_FIRST, Knock(2, 1, ())).opening == Record(8, (_FIRST, _SECOND))
    assert board.respond(_SECOND, Knock(0, 2, ())).opening is None
    monkeypatch.setattr(boards, "KNOCK_SECONDS", 0)
    assert board.waiting() == []
    assert board.respond(_FIRST, Knock(0, 2, ())).opening is None


@pytest.mark.parametrize("question", [b"x" * 70000, b'{"reader": "1"}\n'])
def test_what_is_no_question_gets_no_answer(address: tuple[str, int], question: bytes) -> None:
    with create_connection(address, 5) as connection, connection.makefile("rb") as answer:
        connection.sendall(question)
        with suppress(ConnectionResetError):  # what it sent was not read to its end
            assert answer.read() == b""
    assert query(address, _SECOND).owner == _FIRST


def test_a_worker_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boards, "ANSWER_SECONDS", 0.2)
    with create_server(("127.0.0.1", 0)) as silent, pytest.raises(OSError, match="timed out"):
        query(silent.getsockname(), _SECOND)


def test_what_takes_longer_is_named_and_left_behind() -> None:
    def fail() -> int:
        raise ConnectionError("nobody answers")

    def hang() -> int:
        time.sleep(20)
        return 1

    began = time.monotonic()
    with pytest.raises(TimeoutError, match=r"asking took longer than 0\.1 s"):
        within(0.1, "asking", hang)
    # Of several, those that end well and in time are returned.
    assert together(2, {0: lambda: 0, 1: fail, 2: hang}) == {0: 0}
    assert time.monotonic() - began < 10
