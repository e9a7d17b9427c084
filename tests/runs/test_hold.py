"""A rank that failed stays for a shell while the run has ended, and one waits for a debugger."""

import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.cli.runs import inside
from scripts.cli.state import StackState
from scripts.cli.terminal import CommandError
from tests.engine.awaiting import COMMAND_SECONDS, await_true
from tests.engine.job_programs import MEETING
from tests.engine.pytorchjob_stack import Jobs
from tests.runs.runner import Runs

_FAILS = f"""{MEETING}
print(rank, "begins", flush=True)
if rank == 1:
    open("left", "w").write("by the program")
    raise ValueError("a bad value")
time.sleep(600)
"""
_ENDS = """
import os
def doubled(number):
    return 2 * number  # stops here
print(os.environ["RANK"], "begins", flush=True)
print("it is", doubled(21), flush=True)
"""
_LONG, _SHORT = 600, 15
_SECONDS = 30


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project's folder, with a stack `test` that allows commands in its jobs' pods."""
    monkeypatch.setenv("SLIPWAY_PROJECT", str(tmp_path))
    config = {"slipway:cluster": {"kind": "kubeconfig"}, "slipway:exec": True}
    (tmp_path / "Pulumi.test.yaml").write_text(yaml.safe_dump({"config": config}))
    return tmp_path


def declared(folder: Path, program: str, **fields: Any) -> dict[str, Any]:
    (folder / "train.py").write_text(program)
    common = {"script": "train.py", "cpu": "100m", "memory": "128Mi", "timeout": COMMAND_SECONDS}
    return {**common, "workers": 1, **fields}


def pods(jobs: Jobs, job: str) -> dict[str, dict[str, Any]]:
    return {pod["metadata"]["name"]: pod for pod in jobs.items("pods", job)}


def exit_of(pod: dict[str, Any]) -> dict[str, Any]:
    (status,) = pod["status"]["containerStatuses"]
    ended: dict[str, Any] = status["state"].get("terminated", {})
    return ended


def test_a_rank_that_failed_is_held_for_a_shell_until_its_time_is_over_or_the_next_run(
    job_name: str,
    runs: Runs,
    jobs: Jobs,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    job = declared(folder, _FAILS, env={"OWN": "declared"})
    with runs.training(job_name, **job, onFailure={"hold": _LONG}) as going:
        await_true(lambda: "with code 1: ValueError: a bad value, train.py:" in going.text)
        began = time.monotonic()
        said = str(going.end().error)
        assert time.monotonic() - began < _SECONDS, "it did not wait for the end of the hold"
    assert f"job {job_name} ended Failed: rank 1 ({job_name}-worker-0) exited with code 1" in said
    assert f"what to do: look into its pod by `make shell JOB={job_name} RANK=1` until 20" in said
    assert '"held"' not in said
    assert runs.output(job_name)["exit_codes"]["1"] == 1
    assert runs.output(job_name)["failure"]["error"] == "ValueError: a bad value"

    # Rank 0, which would have gone on for ten minutes, is stopped; rank 1 stays.
    await_true(lambda: exit_of(pods(jobs, job_name)[f"{job_name}-master-0"]) != {})
    assert pods(jobs, job_name)[f"{job_name}-worker-0"]["status"]["phase"] == "Running"
    state = StackState.from_export(runs.export())
    monkeypatch.setattr(inside, "read_state", lambda *_, **__: state)
    words = "pwd; cat left; echo; echo $OWN, rank $RANK of $WORLD_SIZE; ls train.py; exit 7"
    with subprocess.Popen(["echo", words], stdout=subprocess.PIPE) as typed:
        monkeypatch.setattr(sys, "stdin", typed.stdout)
        assert inside.shell("test", job_name, 1) == 7, "the shell's own exit code"
    shown = capfd.readouterr().out.splitlines()
    where = f"/work/src/{job_name}"
    assert shown == [where, "by the program", "declared, rank 1 of 2", "train.py"]

    # The next run ends that, and its own comes to its end by itself.
    before, began = jobs.uids(job_name), time.monotonic()
    runs.train_in_vain(job_name, **job, onFailure={"hold": _SHORT})
    assert time.monotonic() - began < 2 * _SECONDS
    assert len(jobs.uids(job_name)) == 1
    assert jobs.uids(job_name) != before
    await_true(lambda: exit_of(pods(jobs, job_name)[f"{job_name}-worker-0"]) != {})
    held = pods(jobs, job_name)[f"{job_name}-worker-0"]
    assert exit_of(held)["exitCode"] == 1
    assert json.loads(exit_of(held)["message"])["error"] == "ValueError: a bad value"
    await_true(lambda: pods(jobs, job_name)[f"{job_name}-worker-0"]["status"]["phase"] == "Failed")
    assert [each["restartCount"] for each in held["status"]["containerStatuses"]] == [0]


class Debugger:
    """A client of debugpy: https://microsoft.github.io/debug-adapter-protocol/specification."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._file, self._sent = self._socket.makefile("rb"), 0
        self.events: list[dict[str, Any]] = []

    def send(self, command: str, **arguments: Any) -> int:
        self._sent += 1
        request = {"seq": self._sent, "type": "request", "command": command}
        text = json.dumps({**request, "arguments": arguments}).encode()
        self._socket.sendall(b"Content-Length: %d\r\n\r\n%s" % (len(text), text))
        return self._sent

    def messages(self) -> Iterator[dict[str, Any]]:
        while header := self._file.readline():
            length = int(header.partition(b":")[2])
            self._file.readline()
            yield json.loads(self._file.read(length))

    def answer(self, number: int) -> dict[str, Any]:
        """Return the body of the answer to a request."""
        for each in self.messages():
            if each["type"] == "response" and each["request_seq"] == number:
                assert each["success"], each
                return dict(each.get("body") or {})
        raise ConnectionError

    def await_event(self, name: str) -> dict[str, Any]:
        for each in self.messages():
            if each["type"] == "event" and each["event"] == name:
                return dict(each.get("body") or {})
        raise ConnectionError


def debug(port: int, local: Path, remote: str) -> str:
    """Attach, stop in `doubled`, change what it is given, go on, and return where it stopped."""
    deadline = time.monotonic() + 60
    while True:
        try:
            client = Debugger(port)
            client.answer(client.send("initialize", adapterID="debugpy", pathFormat="path"))
            break
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.5)
    places = [{"localRoot": str(local), "remoteRoot": remote}]
    client.send("attach", justMyCode=True, pathMappings=places)
    client.await_event("initialized")
    source = {"path": str(local / "train.py")}
    line = 1 + _ENDS.splitlines().index("    return 2 * number  # stops here")
    client.answer(client.send("setBreakpoints", source=source, breakpoints=[{"line": line}]))
    client.send("configurationDone")
    thread = client.await_event("stopped")["threadId"]
    frame = client.answer(client.send("stackTrace", threadId=thread))["stackFrames"][0]
    inside_it = {"frameId": frame["id"], "context": "repl"}
    client.answer(client.send("evaluate", expression="number = 4", **inside_it))
    client.answer(client.send("continue", threadId=thread))
    client.await_event("terminated")
    return f"{frame['source']['path']}:{frame['line']}"


@contextmanager
def debugpy(folder: Path) -> Iterator[dict[str, Any]]:
    """The fields of a job that has debugpy, as `requirements` would bring it."""
    found = find_spec("debugpy")
    assert found is not None
    assert found.origin is not None
    place = folder / "packages"
    shutil.copytree(Path(found.origin).parent, place / "debugpy")
    place.chmod(0o755)
    mounted = {"hostPath": str(place), "mountPath": "/mnt/packages", "readOnly": True}
    yield {"volumes": {"packages": mounted}, "env": {"PYTHONPATH": "/opt/slipway:/mnt/packages"}}


def test_a_rank_waits_for_its_debugger_and_goes_on_under_it(
    job_name: str,
    runs: Runs,
    jobs: Jobs,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with debugpy(folder) as packages:
        job = declared(folder, _ENDS, debug=1, stall=5, **packages)
    job["memory"] = "512Mi"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with runs.training(job_name, **job) as going, ThreadPoolExecutor(1) as pool:
        await_true(lambda: "0 begins" in jobs.kubectl("logs", f"{job_name}-master-0"))
        await_true(lambda: f"`make debug JOB={job_name}`" in going.text)
        await_true(
            lambda: pods(jobs, job_name)[f"{job_name}-worker-0"]["status"]["phase"] == "Running"
        )
        time.sleep(8)
        assert "1 begins" not in jobs.kubectl("logs", f"{job_name}-worker-0")
        state = StackState.from_export(runs.export())
        monkeypatch.setattr(inside, "read_state", lambda *_, **__: state)
        stopped = pool.submit(debug, port, folder, f"/work/src/{job_name}")
        with pytest.raises(CommandError, match="can't be reached, or no longer"):
            inside.debug("test", job_name, port)
        assert stopped.result(60) == f"{folder}/train.py:4"
        entry = json.loads(capfd.readouterr().out.partition("launch.json:\n")[2])
        assert entry["pathMappings"][0]["localRoot"] == str(folder)
        assert going.end().error is None, going.text
    assert "it is 8" in jobs.kubectl("logs", f"{job_name}-worker-0")
    assert runs.output(job_name)["state"] == "Succeeded"
