"""A run that did not succeed tells why, and what to do."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jobs.model.job import TrainingJob
from jobs.model.parts import Limits, Master
from jobs.observe import outcome
from jobs.observe.log_ends import LogEnds
from jobs.observe.run_state import RunState
from jobs.records.archive import Run
from jobs.result import End, FailureDetails, RunResult, explain
from jobs.run.retry import curable
from tests.unit.jobs_objects import clock, declared, ended, pod, runs, seen, warning
from tests.unit.not_none import not_none

DECLARED, LATER = declared(), clock(5, 1)


def failed(state: dict[str, Any]) -> RunState:
    return seen("Failed", pod(1, state=state))


@dataclass
class Printed(LogEnds):
    """What is left of the logs of a run."""

    log: Sequence[str] = ()
    log_before: Sequence[str] = ()

    def relevant(self) -> list[str]:
        return [*self.log]

    def before(self) -> list[str]:
        return [*self.log_before]


def told(
    run: RunState, end: End | None = None, of: TrainingJob = DECLARED, **logs: Sequence[str]
) -> FailureDetails:
    end = end or End("Failed", str(run.failure))
    events = [warning("Back-off restarting")]
    return outcome.details(end, Printed(run, Run(Path("/nowhere")), **logs), events, of)


def story(run: RunState, end: End | None = None, **more: Any) -> str:
    details, end = told(run, end, **more), end or End("Failed", str(run.failure))
    return explain("mine", RunResult(state=end.state, reason=end.reason, failure=details))


def test_the_whole_story_of_a_rank_that_failed() -> None:
    recorded = {"at": "train.py:40", "causes": ["KeyError: 'label'"], "from": "program"}
    program_said = {"rank": 1, "error": "ValueError: bad shape", "traceback": "...", **recorded}
    log = [f"line {number}" for number in range(40)]
    text = story(failed(ended(3, program_said)), log=log)
    assert text.splitlines()[0] == (
        "job mine ended Failed: rank 1 (mine-worker-0) exited with code 3: ValueError: bad shape, "
        "train.py:40"
    )
    assert "its error:" not in text, "it stands in the first line"
    shown = "".join(f"\n    {line}" for line in log[10:])
    assert f"the end of rank 1's log:{shown}\n" in text
    assert "Pod mine-master-0: Failed: Back-off restarting" in text
    assert "then run `make up` again" in text


def test_an_error_is_named_once_with_its_first_line_in_the_reason() -> None:
    text = story(failed(ended(1, {"error": "ValueError: bad\nin shard 3", "at": "train.py:4"})))
    assert text.splitlines()[0].endswith("exited with code 1: ValueError: bad, train.py:4")
    assert "its error: ValueError: bad\nin shard 3" in text


def test_the_files_of_rank_0_are_kept_where_its_peer_broke() -> None:
    """It fails for want of that peer, after it has copied them out, and may be started again."""
    best = {"best.pt": {"url": "file:///best.pt", "sha256": "0" * 64, "bytes": 1}}
    own = {"own.log": {"url": "file:///own.log", "sha256": "1" * 64, "bytes": 2}}
    peer = pod(1, state=ended(1, {"rank": 1, "error": "ValueError: bad", "artifacts": own}))
    lost = ended(1, {"error": "Connection closed", "artifacts": best}, finished=LATER)
    for first in (pod(0, state=lost), runs(0, last=lost, restarts=1)):
        run = seen("Failed", first, peer)
        found = not_none(outcome.result(End("Failed", "it"), run, LATER, told(run)).failure)
        assert (found.rank, found.artifacts) == (1, {**best, **own})


NOPE = 'exec: "nope": executable file not found'
TAKEN = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
KILLED = ended(137, reason="OOMKilled")
LOST = seen("Failed", pod(1, state=ended(143), conditions=[TAKEN]))
OWN, LARGER = Master(memory="4Gi"), Limits(memory="4Gi")


@pytest.mark.parametrize(
    ("run", "of", "words"),
    [
        (failed(KILLED), {}, ["memory limit: 1Gi", "raise the job's `memory`"]),
        (seen("Failed", pod(1, init=KILLED)), {}, ["raise the job's `memory`"]),
        (failed(KILLED), {"limits": LARGER}, ["raise the job's `limits.memory`"]),
        (failed(KILLED), {"master": OWN}, ["raise the job's `memory`"]),
        (
            seen("Failed", pod(0, state=KILLED)),
            {"master": OWN},
            ["raise the job's `master.memory`"],
        ),
        (
            seen("Failed", pod(0, state=KILLED)),
            {"master": Master(limits=LARGER)},
            ["`master.limits.memory`"],
        ),
        (failed(ended(128, NOPE, reason="StartError")), {}, [NOPE, "`command`"]),
        (failed(ended(135, "training\n")), {}, ["`sharedMemory`"]),
        (LOST, {}, ["was evicted", "`retries: 2`"]),
        (LOST, {"retries": 3}, ["raise the job's `retries`"]),
        (LOST, {"retries": 3, "retry_on": ("ownFailure",)}, ["add `lostNode` to its `retryOn`"]),
    ],
)
def test_a_known_cause_is_named_with_what_to_do(
    run: RunState, of: dict[str, Any], words: list[str]
) -> None:
    text = story(run, of=declared(**of))
    assert [each for each in words if each not in text] == []


def test_an_eviction_by_a_kubelet_is_retried_and_told_once() -> None:
    """The pod and its condition have the same message."""
    low = "The node was low on resource: memory. "
    by_kubelet = {**TAKEN, "reason": "TerminationByKubelet", "message": low}
    evicted = pod(1, state=ended(137), phase="Failed", conditions=[by_kubelet])
    evicted["status"] |= {"reason": "Evicted", "message": low}
    run = seen("Failed", evicted)
    lost = RunResult(state="Failed", reason=str(run.failure), failure=told(run))
    assert "TerminationByKubelet" in str(curable(lost, ["lostNode"]))
    assert explain("mine", lost).count("low on resource") == 1


def test_a_replica_that_was_started_again_shows_both_its_logs() -> None:
    text = story(failed(ended(3)), log=["again"], log_before=["the first time"])
    assert text.index("    the first time") < text.index("    again")
    assert "before it was restarted" in text
    text = story(failed(ended(3)), log=["again"], log_before=["again"])
    assert text.count("    again") == 1
    assert "log, the same as before it was restarted:" in text


def test_a_failed_init_container_is_named_with_its_error_and_log() -> None:
    run = seen("Failed", pod(1, init=ended(1, {"error": "input model: it is gone"})))
    text = story(run, log=["its last line"])
    assert told(run).pod == "mine-worker-0"
    assert "its error: input model: it is gone" in text
    assert "the end of container tcp-wait's log:\n    its last line" in text


def test_without_a_failed_rank_or_details_there_is_still_a_story() -> None:
    text = story(seen("Failed"), End("TimedOut", "not done after 5 s", "raise it"), log=["waiting"])
    assert "job mine ended TimedOut: not done after 5 s" in text
    assert "the end of rank 0's log:" in text
    assert "raise it" in text
    text = explain("mine", RunResult(state="CannotStart", reason="refused: no such CRD"))
    assert text == "job mine ended CannotStart: refused: no such CRD"


def test_warnings_are_listed_once_and_in_order() -> None:
    later, earlier = warning("b", clock(2)), warning("a", clock(1))
    normal = {**warning("c"), "type": "Normal"}
    repeated = warning("Error pod mine-master-0 container pytorch waiting message: b")
    assert outcome.warnings([later, earlier, earlier, normal, repeated]) == [
        "Pod mine-master-0: Failed: a",
        "Pod mine-master-0: Failed: b",
    ]


_TRACE = "Traceback (most recent call last):"
_ELSEWHERE = "RuntimeError: Attempting to deserialize … but torch.cuda.is_available() is False."
_CHAINED = "The above exception was the direct cause of the following exception:"
_KILLED = "RuntimeError: DataLoader worker (pid 23) is killed by signal: "
# What sockets, urllib, requests, httpx, torchvision, transformers and datasets raise.
_POOL = "HTTPSConnectionPool(host='x.org', port=443)"
_OFFLINE = (
    "socket.gaierror: [Errno -3] Temporary failure in name resolution",
    "OSError: [Errno 101] Network is unreachable",
    f"requests.exceptions.ConnectionError: {_POOL}: Max retries exceeded with url: /a",
    "httpx.ConnectError: [Errno -2] Name or service not known",
    "RuntimeError: Error downloading a.gz: Tried https://x.org/, got: <urlopen error [Errno -2]>",
    "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find",
    "ConnectionError: Couldn't reach 'imdb' on the Hub (LocalEntryNotFoundError)",
    "subprocess.CalledProcessError: curl: (6) Could not resolve host: x.org",
)
_ALONE = (
    "torch.distributed.DistNetworkError: The client socket has failed to connect to any network "
    "address of (mine-master-0, 23456). (gai error: -2 - Name or service not known)"
)
_BUS = f"{_KILLED}Bus error. It is possible that dataloader's workers are out of shared memory."


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("AttributeError: module 'torch._C' has no attribute '_cuda_setDevice'", "is_available()"),
        ("RuntimeError: Found no NVIDIA driver on your system. Please check", "is_available()"),
        (_ELSEWHERE, "map_location"),
        ("torch.exc.InductorError: InvalidCxxCompiler: No working C++ compiler", "no compiler"),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'g++'", "no compiler"),
        (_BUS, "`sharedMemory`"),
        ("RuntimeError: unable to open shared memory object </torch_7> in read-write", "/dev/shm"),
        (f"{_KILLED}Killed.", "raise the job's `memory`"),
        (f"{_KILLED}Killed.\n\n{_CHAINED}\n\nRuntimeError: it exited", "raise the job's `memory`"),
        ("OSError: [Errno 30] Read-only file system: '/data/mnist'", "below /work"),
        ("OSError: [Errno 28] No space left on device", "make room"),
        ("RuntimeError: [enforce fail at inline_container.cc:672] . unexpected pos 9", "make room"),
        ("PermissionError: [Errno 13] Permission denied: '/mnt/a'", "user 65532"),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'conf/a.yaml'", "`script`"),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/work/src/m/a'", "`script`"),
        ("python3: can't open file '/work/src/m/a.py': [Errno 2] No such", "`script`"),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/r/work/src/m/a'", "`script`"),
        ("python3: can't open file '/r/work/src/m/a.py': [Errno 2] No such", "`script`"),
        ("ModuleNotFoundError: No module named 'utils'", "own module, set `script` to the folder"),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/mnt/a'", "fix the program"),
        (f"mkdir: Permission denied\n{_TRACE}\nValueError: label 11", "fix the program"),
        (f"PermissionError: Permission denied\n{_CHAINED}\nValueError: no cache", "user 65532"),
        (f"Read-only file system\n{_TRACE}\nModuleNotFoundError: No module 'x'", "`requirements`"),
        ("triton.OutOfResourcesError: out of resource: shared memory", "fix the program"),
        *((error, "`internet: true`") for error in _OFFLINE),
        (_ALONE, "fix the program"),
        ("ConnectionRefusedError: [Errno 111] Connection refused", "fix the program"),
        ("ValueError: label 11", "fix the program"),
    ],
)
def test_what_to_do_fits_the_error(log: str, words: str) -> None:
    """The exception comes before what caused it, and other lines count for nothing beside it."""
    assert words in str(told(failed(ended(1, f"{_TRACE}\n{log}"))).advice)
