"""A board answers its peers, opens the next world and refuses what no peer asks, within limits."""

import time
from contextlib import suppress
from socket import create_connection, create_server

import pytest

from slipway_trainer.membership import board as boards
from slipway_trainer.membership.board import (
    Board,
    Knock,
    Record,
    Snapshot,
    query,
    serve,
    together,
    within,
)

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


def test_a_peer_reads_what_stands_there(board: Board, address: tuple[str, int]) -> None:
    assert query(address, _SECOND) == Snapshot(_FIRST, 29500)
    board.publish(Record(1, (_FIRST, _SECOND)))
    assert query(address, _SECOND).record == Record(1, (_FIRST, _SECOND))
    assert board.informed == set()
    board.publish(Record(1, (_FIRST, _SECOND), {"size": 2}))
    assert query(address, _THIRD).record == Record(1, (_FIRST, _SECOND), {"size": 2})
    assert board.informed == {2}


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
