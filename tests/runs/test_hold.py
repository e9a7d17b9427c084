"""A look into a rank: one that runs, one that failed and stays, one that waits for a debugger."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from jobs.api.lines import moment
from scripts.cli.runs import inside
from scripts.cli.state import StackState
from tests.engine.awaiting import COMMAND_SECONDS, await_true
from tests.engine.job_programs import FOLLOWED, MEETING, enough, python
from tests.engine.pytorchjob_stack import Jobs
from tests.runs.runner import Runs

_FAILS = f"""{MEETING}
print(rank, "begins", flush=True)
if rank == 1:
    open("left", "w").write("by the program")
    raise ValueError("a bad value")
time.sleep(600)
"""
_WAITS = """
import os, sys, time
open("/work/left", "w").write("by the program")
def waits_for_a_batch():
    while not os.path.exists("/work/enough"):
        time.sleep(0.2)
print(os.environ["RANK"], "begins", flush=True)
waits_for_a_batch()
"""
_STOP = "    return 2 * number"
_ENDS = f"""{MEETING}
print(rank, "begins", flush=True)
def doubled(number):
{_STOP}
print("it is", doubled(21), flush=True)
"""
_LINE = 1 + _ENDS.splitlines().index(_STOP)
_LONG, _SHORT = 600, 15
_SECONDS = 30


def declared(folder: Path, program: str, **fields: Any) -> dict[str, Any]:
    (folder / "train.py").write_text(program)
    common = {"script": "train.py", "cpu": "100m", "memory": "128Mi", "timeout": COMMAND_SECONDS}
    return {**common, "workers": 1, **fields}


def pod(jobs: Jobs, name: str) -> dict[str, Any]:
    job = name.rsplit("-", 2)[0]
    return next(each for each in jobs.items("pods", job) if each["metadata"]["name"] == name)


def is_running(jobs: Jobs, name: str) -> bool:
    return bool(pod(jobs, name)["status"]["phase"] == "Running")


def exit_of(pod: dict[str, Any]) -> dict[str, Any]:
    (status,) = pod["status"]["containerStatuses"]
    return dict(status["state"].get("terminated", {}))


def read_state_of(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the commands read these runs' state instead of that in Pulumi's backend."""
    state = StackState.from_export(runs.export())
    monkeypatch.setattr(inside, "read_state", lambda *_, **__: state)


def in_shell(
    words: str, job: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> list[str]:
    """Return what a shell in rank 1 prints that is given these words, which end it with 7."""
    with subprocess.Popen(["echo", words], stdout=subprocess.PIPE) as typed:
        monkeypatch.setattr(sys, "stdin", typed.stdout)
        assert inside.shell("test", job, 1) == 7, "the shell's own exit code"
    return capfd.readouterr().out.splitlines()


@pytest.mark.usefixtures("folder")
def test_a_running_rank_shows_where_it_stands_and_takes_a_shell_beside_it(
    job_name: str,
    runs: Runs,
    jobs: Jobs,
    trainer: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    job: dict[str, Any] = python(trainer, _WAITS, env={"OWN": "declared"}, workers=1)
    with runs.training(job_name, **job) as going:
        jobs.await_all_running(job_name, 2)
        await_true(lambda: "1 begins" in jobs.kubectl("logs", f"{job_name}-worker-0"))
        read_state_of(runs, monkeypatch)

        assert inside.stacks("test", job_name, None) == 0
        shown = capfd.readouterr().out
        assert f"--- rank 0 ({job_name}-master-0)\nrank 0, process 1: python3 -c" in shown
        assert f"--- rank 1 ({job_name}-worker-0)\nrank 1, process 1: python3 -c" in shown
        assert shown.count("in waits_for_a_batch") == 2

        began = time.monotonic()
        words = "pwd; id -un; echo $OWN, rank $RANK; cat left; exit 7"
        lines = in_shell(words, job_name, monkeypatch, capfd)
        assert time.monotonic() - began < 3
        assert lines == ["/work", "slipway", "declared, rank 1", "by the program"]

        enough(jobs, job_name, "master", "worker")
        assert going.end().error is None, going.text
    assert runs.output(job_name)["state"] == "Succeeded"


def test_a_rank_that_failed_is_held_for_a_shell_until_its_time_is_over_or_the_next_run(
    job_name: str,
    runs: Runs,
    jobs: Jobs,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """With its files and its environment; the run has ended as without."""
    master, worker = f"{job_name}-master-0", f"{job_name}-worker-0"
    job = declared(folder, _FAILS, env={"OWN": "declared"})
    with runs.training(job_name, **job, onFailure={"hold": _LONG}) as going:
        await_true(lambda: "with code 1: ValueError: a bad value, train.py:" in going.text)
        began = time.monotonic()
        said = str(going.end().error)
        assert time.monotonic() - began < _SECONDS, "it did not wait for the end of the hold"
    assert f"job {job_name} ended Failed: rank 1 ({worker}) exited with code 1" in said
    assert f"what to do: inspect its pod with `make shell JOB={job_name} RANK=1` until 20" in said
    assert '"held"' not in said
    assert runs.output(job_name)["exit_codes"]["1"] == 1
    assert runs.output(job_name)["failure"]["error"] == "ValueError: a bad value"

    # Rank 0, which would have gone on for ten minutes, is stopped; rank 1 stays.
    await_true(lambda: exit_of(pod(jobs, master)) != {})
    assert is_running(jobs, worker)
    read_state_of(runs, monkeypatch)
    words = "pwd; cat left; echo; echo $OWN, rank $RANK of $WORLD_SIZE; ls train.py; exit 7"
    shown = in_shell(words, job_name, monkeypatch, capfd)
    where = f"/work/src/{job_name}"
    assert shown == [where, "by the program", "declared, rank 1 of 2", "train.py"]

    # The next run ends that. In it rank 0 fails for want of rank 1, and is not held.
    before, began = jobs.uids(job_name), time.monotonic()
    job = declared(folder, FOLLOWED, onFailure={"hold": _SHORT})
    said = runs.train_in_vain(job_name, **job)
    assert time.monotonic() - began < 2 * _SECONDS
    assert f"ended Failed: rank 1 ({worker}) exited with code 3\n" in said
    assert "RANK=1` until 20" in said
    (again,) = jobs.uids(job_name)
    assert [again] != before
    assert is_running(jobs, worker)
    await_true(lambda: exit_of(pod(jobs, master)) != {})
    await_true(lambda: '"Failed"' in json.dumps(jobs.items("pytorchjobs", job_name)[0]["status"]))
    assert is_running(jobs, worker)

    # Its time is over.
    await_true(lambda: pod(jobs, worker)["status"]["phase"] == "Failed")
    ended = exit_of(held := pod(jobs, worker))
    assert ended["exitCode"] == 3
    lasted = moment(ended["finishedAt"]) - moment(ended["startedAt"])
    assert _SHORT <= lasted.total_seconds() < _SHORT + _SECONDS
    assert [each["restartCount"] for each in held["status"]["containerStatuses"]] == [0]


class Debugger:
    """A client of debugpy: https://microsoft.github.io/debug-adapter-protocol/specification."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._file, self._sent = self._socket.makefile("rb"), 0
        try:
            self.ask("initialize", adapterID="debugpy", pathFormat="path")
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def send(self, command: str, **arguments: Any) -> int:
        self._sent += 1
        request = {"seq": self._sent, "type": "request", "command": command}
        text = json.dumps({**request, "arguments": arguments}).encode()
        self._socket.sendall(b"Content-Length: %d\r\n\r\n%s" % (len(text), text))
        return self._sent

    def await_message(self, **wanted: Any) -> dict[str, Any]:
        """Return the body of the next message that has these values."""
        while header := self._file.readline():
            length = int(header.partition(b":")[2])
            self._file.readline()
            message = json.loads(self._file.read(length))
            if wanted.items() <= message.items():
                assert message.get("success", True), message
                return dict(message.get("body") or {})
        raise ConnectionError

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        number = self.send(command, **arguments)
        return self.await_message(type="response", request_seq=number)

    def await_event(self, name: str) -> dict[str, Any]:
        return self.await_message(type="event", event=name)


def reached(port: int) -> Debugger:
    """Return a client once debugpy answers, whose port may be forwarded before it listens."""
    for _ in range(120):
        with suppress(OSError):
            return Debugger(port)
        time.sleep(0.5)
    raise TimeoutError(port)


def debug(port: int, local: Path, remote: str) -> str:
    """Attach, stop in `doubled`, change what it is given, go on, and return where it stopped."""
    with closing(reached(port)) as client:
        places = [{"localRoot": str(local), "remoteRoot": remote}]
        client.send("attach", justMyCode=True, pathMappings=places)
        client.await_event("initialized")
        source = {"path": str(local / "train.py")}
        client.ask("setBreakpoints", source=source, breakpoints=[{"line": _LINE}])
        client.send("configurationDone")
        thread = client.await_event("stopped")["threadId"]
        frame = client.ask("stackTrace", threadId=thread)["stackFrames"][0]
        client.ask("evaluate", expression="number = 4", frameId=frame["id"], context="repl")
        client.ask("continue", threadId=thread)
        client.await_event("terminated")
        return f"{frame['source']['path']}:{frame['line']}"


def with_debugpy(folder: Path) -> dict[str, Any]:
    """Return the fields of a job that has debugpy, as `requirements` would bring it."""
    found = find_spec("debugpy")
    assert found is not None
    assert found.origin is not None
    place = folder / "packages"
    shutil.copytree(Path(found.origin).parent, place / "debugpy")
    place.chmod(0o755)
    mounted = {"hostPath": str(place), "mountPath": "/mnt/packages", "readOnly": True}
    return {"volumes": {"packages": mounted}, "env": {"PYTHONPATH": "/opt/slipway:/mnt/packages"}}


def test_a_rank_waits_for_its_debugger_and_goes_on_under_it(
    job_name: str,
    runs: Runs,
    jobs: Jobs,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    own = {"debug": 1, "stall": 5, "memory": "512Mi", **with_debugpy(folder)}
    job = declared(folder, _ENDS, **own)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with runs.training(job_name, **job) as going, ThreadPoolExecutor(1) as pool:
        jobs.await_all_running(job_name, 2)
        assert f"rank 1 is waiting for a debugger: `make debug JOB={job_name}`" in going.text
        time.sleep(2 * own["stall"])
        assert "begins" not in jobs.kubectl("logs", f"{job_name}-worker-0")
        read_state_of(runs, monkeypatch)
        stopped = pool.submit(debug, port, folder, f"/work/src/{job_name}")
        # As Ctrl-C does; the port stays until then, whatever becomes of the rank.
        stopped.add_done_callback(lambda _: os.kill(os.getpid(), signal.SIGTERM))
        assert inside.debug("test", job_name, port) == 0
        assert stopped.result(60) == f"{folder}/train.py:{_LINE}"
        entry = json.loads(capfd.readouterr().out.partition("launch.json:\n")[2])
        assert entry["pathMappings"][0]["localRoot"] == str(folder)
        assert going.end().error is None, going.text
    assert "it is 8" in jobs.kubectl("logs", f"{job_name}-worker-0")
    assert runs.output(job_name)["state"] == "Succeeded"
