"""Of a training that one rank breaks, that rank and its error are named, whatever its peers do.

Real torch in the trainer's image, two or three pods, the real operator.
"""

import itertools
import os
import secrets
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from subprocess import CalledProcessError

import pytest

from core.paths import CHECKOUT
from tests.engine.awaiting import await_true
from tests.engine.pytorchjob_stack import Jobs
from tests.runs.runner import Runs

_SCRIPTS = CHECKOUT / "tests/runs/scripts"
_AT_ONCE = 3  # they wait most of the time
SAYS = {
    "exception": "exited with code 1",
    "exit": "exited with code 7",
    "os-exit": "exited with code 9",
    "kill": "exited with code 137 (SIGKILL)",
    "memory": "was killed: out of memory",
    "segfault": "exited with code 139 (SIGSEGV)",
    "sigterm": "exited with code 143 (SIGTERM)",
    "early": "exited with code 0 before the other ranks were done",
    "hang": "did not respond to its peers",
    "import": "exited with code 1",
    "disk": "was evicted by its node: Pod ephemeral local storage usage exceeds the total limit",
}
"""What is reported of the rank that breaks, by how it does."""
_RAISING = (_SCRIPTS / "raising.py").read_text().splitlines()
_LINE, _CONNECTS = (
    1 + next(number for number, line in enumerate(_RAISING) if line.strip().startswith(begins))
    for begins in ("raise ValueError", "socket.create_connection")
)
_WRONG = f"ValueError: label 11 is out of range, raising.py:{_LINE}"
ERRORS = {
    "network": f"ConnectionRefusedError: [Errno 111] Connection refused, raising.py:{_CONNECTS}",
    **dict.fromkeys(("loader", "spawn", "torchrun", "hydra", "forgotten"), _WRONG),
    "loader-killed": "RuntimeError: DataLoader worker",
    "port": "DistNetworkError: ",
}
"""How a rank's error and its line are reported, by what wraps or hides it."""


@dataclass(frozen=True)
class Broken:
    """One way to break a training."""

    cause: str
    rank: int
    peers: str = "gloo"
    policy: str = "OnFailure"
    world: int = 2

    def __str__(self) -> str:
        return f"{self.cause}, rank {self.rank} of {self.world}, {self.peers}, {self.policy}"

    @property
    def processes_per_pod(self) -> int:
        return 2 if self.cause == "torchrun" else 1

    @property
    def pod(self) -> str:
        """The end of its pod's name."""
        number = self.rank // self.processes_per_pod
        return f"worker-{number - 1}" if number else "master-0"

    @property
    def says(self) -> str:
        raised = ERRORS.get(self.cause)
        return SAYS[self.cause] if raised is None else f"exited with code 1: {raised}"

    def run(self, runs: Runs, jobs: Jobs) -> str:
        """Train; return what is wrong with the report of it, nothing if all is right."""
        name = f"broken-{secrets.token_hex(3)}"
        declared = {
            "script": str(_SCRIPTS / ("raising.py" if self.cause in ERRORS else "broken_ddp.py")),
            "args": [self.cause, self.rank, self.peers],
            "workers": self.world // self.processes_per_pod - 1,
            "processesPerNode": self.processes_per_pod,
            "cpu": "100m",
            "memory": "1536Mi" if self.processes_per_pod > 1 else "768Mi",
            "restartPolicy": self.policy,
            "timeout": 300,
        }
        if self.cause == "disk":
            declared["limits"] = {"ephemeralStorage": "100Mi"}
        with runs.training(name, **declared) as going:
            if self.cause == "kill":
                await_true(lambda: "is about to break" in _log(jobs, f"{name}-{self.pod}"))
                _kill(jobs, name, self.pod)
            said = going.end().text
        expected = f"ended Failed: rank {self.rank} ({name}-{self.pod}) {self.says}"
        if expected in said and runs.output(name)["failure"]["rank"] == self.rank:
            return ""
        return f"{self}: expected `{expected}`, found:\n{said}"


def _log(jobs: Jobs, pod: str) -> str:
    try:
        return jobs.kubectl("logs", pod)
    except CalledProcessError:
        return ""  # It has not started yet.


def _kill(jobs: Jobs, name: str, pod: str) -> None:
    """Kill the program of a pod, as its node would: from within, process 1 can't be."""
    uids = {each["metadata"]["name"]: each["metadata"]["uid"] for each in jobs.items("pods", name)}
    for status in Path("/proc").glob("[0-9]*/cgroup"):
        try:
            program = (status.parent / "cmdline").read_text()
            if uids[f"{name}-{pod}"] in status.read_text() and "broken_ddp" in program:
                os.kill(int(status.parent.name), signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            continue  # It has ended meanwhile.


def _raising(peers: str) -> list[Broken]:
    """Return every cause for rank 0 and the last."""
    worlds = {cause: 4 if cause == "torchrun" else 2 for cause in ERRORS}
    return [
        Broken(cause, rank, peers, world=n) for cause, n in worlds.items() for rank in (0, n - 1)
    ]


_CASES = {
    "briefly": [
        Broken("hang", 1),
        Broken("kill", 2, world=3, policy="Never"),
        Broken("network", 1, "work"),
    ],
    "every rank": [Broken(*each, world=3) for each in itertools.product(SAYS, (0, 1, 2))],
    **{policy: [Broken(cause, 1, policy=policy) for cause in SAYS]
       for policy in ("Never", "ExitCode")},
    # Of these peers none fails when a rank hangs or ends with 0: that is the time limit's to find.
    **{peers: [Broken(cause, 1, peers) for cause in SAYS if cause not in {"early", "hang"}]
       for peers in ("sleeps", "ignores")},
    **{f"an own error, peers {peers}": _raising(peers) for peers in ("wait", "work")},
    "an own error, no group": [Broken("network", rank, "alone") for rank in (0, 1)],
}  # fmt: skip


@pytest.mark.parametrize(
    "which",
    [each if each == "briefly" else pytest.param(each, marks=pytest.mark.long) for each in _CASES],
)
def test_the_rank_that_broke_is_named_with_its_own_error_though_its_peers_die_of_it(
    which: str, runs: Runs, jobs: Jobs, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = _CASES[which]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        mistakes = [each for each in pool.map(lambda case: case.run(runs, jobs), cases) if each]
    with capsys.disabled():
        print(f"{which}: {len(cases) - len(mistakes)} of {len(cases)} right")  # noqa: T201
    assert not mistakes, "\n\n".join(mistakes)
