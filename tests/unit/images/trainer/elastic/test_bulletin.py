"""A worker's board answers its peers, and refuses what no peer asks."""

from http.client import HTTPConnection
from socket import create_server

import pytest

from slipway_trainer.elastic.board import Board, Member, Snapshot
from slipway_trainer.elastic.bulletin import RemoteBoard, serve


@pytest.fixture(scope="module")
def port() -> int:
    """The port of a served board."""
    with create_server(("127.0.0.1", 0)) as free:
        found: int = free.getsockname()[1]
    serve(Board(Snapshot(Member(0, "first"), 29500)), found)
    return found


def test_a_peer_reads_what_stands_there(port: int) -> None:
    assert RemoteBoard(("127.0.0.1", port), 1).read().owner == Member(0, "first")


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
