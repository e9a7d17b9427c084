"""Several processes in one pod, and pods that train together, started by the image's launcher."""

import signal
import time
from pathlib import Path

import pytest

from tests.trainer.conftest import Opened

_LAUNCH = ("python3", "-m", "slipway_trainer.launch", "--processes")
_SECONDS_TO_NOTICE = 60

# A plain script in which rank 1 comes to grief while all others wait for it.
_BREAKING = """
import os, signal, sys
import torch, torch.distributed as dist
dist.init_process_group("gloo")
dist.barrier()
if dist.get_rank() == 1:
    open("/out/begun", "w").close()
    {grief}
dist.all_reduce(torch.ones(1))
"""
_STOP_IN_A_STEP = """
cd /out
"$@" & launcher=$!
until grep -q '"step"' /out/0.out; do sleep 0.1; done
touch /out/begun
kill -TERM $launcher
wait $launcher
"""


def _seconds_since_begun(directory: Path) -> float:
    return time.time() - (directory / "begun").stat().st_mtime


def test_two_pods_of_two_processes_are_one_world_of_four(image: Opened, tmp_path: Path) -> None:
    numbered = ("sh", "-c", 'cd /out && PET_NODE_RANK=$RANK exec "$@"', "sh")
    small = ("-m", "slipway_trainer.mnist", "--limit-train", "500", "--limit-test", "200")
    command = (*numbered, *_LAUNCH, "2", "--", *small)
    first, second = image.pods(tmp_path, *command, env={"PET_NNODES": 2})
    assert (first.code, second.code) == (0, 0), first.errors + second.errors
    assert (first.message["rank"], second.message["rank"]) == (0, 2)
    assert first.message["world_size"] == second.message["world_size"] == 4
    assert first.message["samples_seen"] + second.message["samples_seen"] == 500
    assert sorted(event["rank"] for event in second.of("completed")) == [2, 3]


@pytest.mark.parametrize(
    ("grief", "code", "says"),
    [
        pytest.param(
            "raise ValueError('of its own making')",
            1,
            "ValueError: of its own making",
            marks=pytest.mark.long,
        ),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137, "was terminated by SIGKILL"),
    ],
)
def test_a_failure_is_that_of_the_rank_that_failed_first(
    image: Opened, tmp_path: Path, grief: str, code: int, says: str
) -> None:
    (tmp_path / "script.py").write_text(_BREAKING.format(grief=grief))
    [pod] = image.pods(tmp_path, *_LAUNCH, "3", "--", "/out/script.py", ranks=1)
    assert _seconds_since_begun(tmp_path) < _SECONDS_TO_NOTICE
    assert pod.message["rank"] == 1, pod.errors
    assert says in pod.message["error"]
    assert pod.code == code
    if code == 1:
        assert "in <module>" in pod.message["traceback"]
        assert "[rank1]" not in pod.message["traceback"]
        assert "[1] " in pod.errors, "its standard error is shown, with its rank"


def test_sigterm_ends_every_process_of_the_pod(image: Opened, tmp_path: Path) -> None:
    command = (*_LAUNCH, "2", "--", "-m", "slipway_trainer.mnist", "--epochs", "20")
    [pod] = image.pods(tmp_path, "sh", "-c", _STOP_IN_A_STEP, "sh", *command, ranks=1)
    assert _seconds_since_begun(tmp_path) < _SECONDS_TO_NOTICE
    assert pod.code == 128 + signal.SIGTERM
    assert len(pod.of("terminated")) == 2
    assert "was terminated by SIGTERM" in pod.message["error"]
