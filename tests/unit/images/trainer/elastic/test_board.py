"""A worker's board answers its peers, and refuses what no peer asks."""

from http.client import HTTPConnection
from socket import create_server

import pytest

from slipway_trainer.elastic.board import Board, Member, Opening, Record, Snapshot, ask, serve


@pytest.fixture(scope="module")
def board() -> Board:
    return Board(Snapshot(Member(0, "first"), 29500))


@pytest.fixture(scope="module")
def port(board: Board) -> int:
    """The port that it is served on."""
    with create_server(("127.0.0.1", 0)) as free:
        found: int = free.getsockname()[1]
    serve(board, found)
    return found


def test_a_peer_reads_what_stands_there_knocks_and_opens_the_next_world(
    board: Board, port: int
) -> None:
    address, second, third = ("127.0.0.1", port), Member(1, "second"), Member(2, "third")
    assert ask(address, 1) == Snapshot(Member(0, "first"), 29500)
    board.publish(Record(1, (Member(0, "first"),)))
    assert ask(address, 1, knock=second).waiting == (second,)
    opening = Opening(2, ("first", "second"), 1)
    assert ask(address, 1, opening=opening) == board.content
    assert ask(address, 2, knock=third).waiting == (third,)
    assert ask(address, 2, opening=Opening(2, ("third",), 2)).opening == opening, "who comes first"
    assert board.told == set()
    board.publish(Record(2, (Member(0, "first"), second), {"size": 2}))
    assert ask(address, 2).record == Record(2, (Member(0, "first"), second), {"size": 2})
    assert board.told == {2}


@pytest.mark.parametrize("length", ["65537", "1000000000000", "-1", "many"])
def test_a_request_without_a_sensible_length_is_refused_before_it_is_read(
    port: int, length: str
) -> None:
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    connection.putrequest("POST", "/read")
    connection.putheader("Content-Length", length)
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


def test_what_is_no_message_is_refused_with_the_reason(port: int) -> None:
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    connection.request("POST", "/read", b'{"who": 1}')
    answer = connection.getresponse()
    assert answer.status == 400
    assert b"KeyError: 'reader'" in answer.read()
    connection.close()
