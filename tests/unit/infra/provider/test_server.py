"""A plugin ends with its engine, and serves this user and root alone."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from unittest.mock import AsyncMock, Mock

import grpc.aio
import pulumi
import pytest
from pulumi.provider.experimental.provider import ConstructRequest, ConstructResponse, Provider
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from core.paths import CHECKOUT
from infra.provider import server

_PLUGIN = """
import sys, time
from infra.provider.server import connect
channel = connect(sys.argv[1])
print("started", flush=True)
time.sleep(60)
"""
LIMIT = 15
STRANGER = os.geteuid() + 4711
PEER = "ipv4:127.0.0.1:40312"


def plugin(port: int, program: str = _PLUGIN) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", program, f"127.0.0.1:{port}"]
    return subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True)


def test_a_plugin_waits_for_its_engine_and_ends_with_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as engine, plugin(engine.getsockname()[1]) as slow:
        engine.settimeout(LIMIT)
        connection, _ = engine.accept()
        with connection:
            assert slow.stdout is not None
            assert slow.stdout.readline() == "started\n"
            time.sleep(1)
            assert slow.poll() is None
        slow.kill()
        port = engine.getsockname()[1]
    with plugin(port) as started:  # its engine has gone before it was ready
        assert started.wait(LIMIT) == 1


def test_a_plugin_ends_by_the_engines_signal_while_grpc_holds_its_lock() -> None:
    """An end in Python's order waited for that lock for good: `make down` reported the process."""
    holding = """
def hold():
    with channel._connectivity_state.lock:
        print("holding", flush=True)
        time.sleep(60)
import threading
threading.Thread(target=hold, daemon=True).start()
"""
    program = _PLUGIN.replace('print("started", flush=True)\n', holding)
    with (
        socket.create_server(("127.0.0.1", 0)) as engine,
        plugin(engine.getsockname()[1], program) as interrupted,
    ):
        assert interrupted.stdout is not None
        assert interrupted.stdout.readline() == "holding\n"
        interrupted.send_signal(signal.SIGINT)
        try:
            assert interrupted.wait(LIMIT) == -signal.SIGINT
        finally:
            interrupted.kill()


def row(state: str, uid: int, peer: str = "1F90") -> str:
    """Return a line of the kernel's table: of which state, and whose."""
    return (
        f"   0: 0100007F:9D78 0100007F:{peer} {state} 00000000:00000000 00:00000000 00000000"
        f" {uid:5} 0 4711 1"
    )


@pytest.mark.parametrize(
    ("rows", "trusted"),
    [
        ([row("01", os.geteuid())], True),
        ([row("01", 0)], True),
        ([row("01", STRANGER)], False),
        # Closed by its process, and so shown as root's.
        ([row("06", 0)], False),
        # A stranger on a shared port.
        ([row("01", 0), row("01", STRANGER, "1F91")], False),
    ],
)
def test_the_kernels_table_says_whose_a_connection_is(
    rows: list[str], trusted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "tcp"
    table.write_text("\n".join(["  sl  local_address rem_address   st", *rows]))
    monkeypatch.setattr(server, "_TABLES", (table,))
    assert server.is_trusted(PEER) is trusted


def test_a_connection_missing_once_is_looked_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([[], [os.geteuid()]])
    monkeypatch.setattr(server, "_owners", lambda *_: next(readings))
    assert server.is_trusted(PEER)
    # One of whom nothing is known is not trusted.
    monkeypatch.undo()
    for peer in ("ipv4:127.0.0.1:1", "unix:/run/socket", "ipv6:%5B::1%5D:40312"):
        assert not server.is_trusted(peer)


class _Meeting(Provider):
    """Whose components are made once there are two of them."""

    def __init__(self) -> None:
        self.both = asyncio.Barrier(2)

    async def construct(self, request: ConstructRequest) -> ConstructResponse:
        before = pulumi.get_stack()
        await self.both.wait()
        return ConstructResponse(f"{before} {pulumi.get_stack()} {request.name}", {}, {})


def constructed(*names: str) -> list[str]:
    """Return the URNs of components of which a server is asked at once."""

    async def made() -> list[str]:
        plugin = grpc.aio.server(interceptors=[server.Answers()])
        servicer = server.Servicer([], "0", _Meeting(), engine_address="")
        provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, plugin)
        port = plugin.add_insecure_port("127.0.0.1:0")
        await plugin.start()
        requests = [
            provider_pb2.ConstructRequest(stack=each, name=each, type="a:b:C") for each in names
        ]
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                construct = provider_pb2_grpc.ResourceProviderStub(channel).Construct
                answers = await asyncio.wait_for(asyncio.gather(*map(construct, requests)), LIMIT)
        finally:
            await plugin.stop(grace=None)
        return [each.urn for each in answers]

    return asyncio.run(made())


def test_two_components_of_a_program_train_side_by_side_each_with_its_own_settings() -> None:
    assert constructed("one", "two") == ["one one one", "two two two"]


def test_children_that_wait_for_the_engine_take_no_thread_from_its_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With 64 threads, 64 jobs of a component waited for good."""
    waiting = threading.Barrier(200)

    async def wait() -> None:
        await asyncio.gather(*(asyncio.to_thread(waiting.wait, LIMIT) for _ in range(200)))

    plugin = Mock(start=wait, wait_for_termination=AsyncMock())
    monkeypatch.setattr(sys, "argv", ["plugin", "127.0.0.1:1"])
    monkeypatch.setattr(server, "connect", grpc.insecure_channel)
    monkeypatch.setattr(grpc.aio, "server", Mock(return_value=plugin))
    server.serve(lambda _: Provider(), "0")
    plugin.wait_for_termination.assert_awaited()


def test_another_user_of_the_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_owners", lambda *_: [STRANGER])
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        constructed("one")
    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
