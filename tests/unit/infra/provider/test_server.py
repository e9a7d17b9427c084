"""A plugin ends with the engine that started it, at whatever moment that one is killed."""

import socket
import subprocess
import sys
import time

from core.paths import CHECKOUT

_PLUGIN = """
import sys, time
from core.context import connect
from infra.provider.server import exit_with
channel = connect(sys.argv[1])
exit_with(channel)
print("started", flush=True)
time.sleep(60)
"""
LIMIT = 15


def plugin(port: int) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", _PLUGIN, f"127.0.0.1:{port}"],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_plugin_whose_engine_has_gone_before_it_was_ready_ends() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    began = time.monotonic()
    with plugin(port) as started:
        assert started.wait(LIMIT) == 1
    assert time.monotonic() - began < LIMIT


def test_a_plugin_whose_engine_takes_its_time_waits_for_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as engine, plugin(engine.getsockname()[1]) as slow:
        connection, _ = engine.accept()
        with connection:
            assert slow.stdout is not None
            assert slow.stdout.readline() == "started\n"
            time.sleep(1)
            assert slow.poll() is None
        slow.kill()
