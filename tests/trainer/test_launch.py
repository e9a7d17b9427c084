"""Several processes in one pod, and pods that train together, started by the image's launcher."""

import json
import shlex
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.trainer.conftest import Ended, Opened, free_port

_SMALL = ("-m", "slipway_trainer.mnist", "--limit-train", "500", "--limit-test", "200")
_SECONDS_TO_NOTICE = 60

# A plain script in which rank 1 comes to grief while all others wait for it.
_BREAKING = """
import os, signal, sys, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
dist.barrier()
if dist.get_rank() == 1:
    with open("/out/begun", "w") as file:
        file.write(str(time.time()))
    {grief}
dist.all_reduce(torch.ones(1))
"""


@dataclass(frozen=True)
class Pods:
    """Pods that start the launcher at the same time; what they leave lies in `directory`.

    Seconds are since `begun` was written last: at their start, by the program, or by `after`.
    """

    image: Opened
    directory: Path

    def run(
        self, *program: str, processes: int = 2, pods: int = 1, before: str = "", after: str = ""
    ) -> list[Ended]:
        """Run a program in so many processes of each pod.

        Args:
            program: What follows the launcher's `--`.
            processes: How many in each pod.
            pods: How many.
            before: Shell commands that come first, in each pod.
            after: Shell commands while the launcher, $launcher, runs in the background.
        """
        self.directory.chmod(0o777)
        launch = ("python3", "-m", "slipway_trainer.launch", "--processes", str(processes), "--")
        command = shlex.join((*launch, *program))
        script = [
            "run() {",
            f"cd /out; touch $1.message; export TERMINATION_LOG=/out/$1.message; {before}",
            f"{command} > $1.out 2> $1.err & launcher=$!; {after}",
            "wait $launcher; echo $? $(date +%s.%N) > $1.code",
            "}",
            "date +%s.%N > /out/begun",
        ]
        port = free_port()
        for pod in range(pods):
            job = {"PET_NNODES": pods, "PET_NODE_RANK": pod, "RANK": pod, "MASTER_PORT": port}
            exports = _exports({**job, "MASTER_ADDR": "127.0.0.1"} if pods > 1 else {})
            script.append(f"({exports} run {pod}) &")
        (self.directory / "pods.sh").write_text("\n".join([*script, "wait"]))
        self.image.run("timeout", "600", "sh", "/out/pods.sh", mounts={self.directory: "/out"})
        return [self._ended(str(pod)) for pod in range(pods)]

    def _ended(self, pod: str) -> Ended:
        def text(name: str) -> str:
            return (self.directory / name).read_text()

        code, at = text(f"{pod}.code").split()
        return Ended(
            code=int(code),
            seconds=float(at) - float(text("begun")),
            signalled=None,
            events=[
                json.loads(line) for line in text(f"{pod}.out").splitlines() if line.startswith("{")
            ],
            errors=text(f"{pod}.err"),
            message=json.loads(text(f"{pod}.message") or "{}"),
        )


def _exports(variables: Mapping[str, object]) -> str:
    return "".join(f"export {name}={value}; " for name, value in variables.items())


@pytest.fixture
def pods(image: Opened, tmp_path: Path) -> Pods:
    return Pods(image, tmp_path)


def test_two_pods_of_two_processes_are_one_world_of_four(pods: Pods) -> None:
    first, second = pods.run(*_SMALL, pods=2)
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
    pods: Pods, grief: str, code: int, says: str
) -> None:
    (pods.directory / "script.py").write_text(_BREAKING.format(grief=grief))
    [pod] = pods.run("/out/script.py", processes=3)
    assert pod.message["rank"] == 1, pod.errors
    assert says in pod.message["error"]
    assert pod.code == code
    assert pod.seconds < _SECONDS_TO_NOTICE
    if code == 1:
        assert "in <module>" in pod.message["traceback"]
        assert "[rank1]" not in pod.message["traceback"]
        assert "[1] " in pod.errors, "its standard error is shown, with its rank"


@pytest.mark.long
def test_of_several_processes_the_one_that_failed_is_held(pods: Pods) -> None:
    (pods.directory / "script.py").write_text(_BREAKING.format(grief="sys.exit(5)"))
    look = (
        "until grep -q held /out/0.out; do sleep 0.2; done; sleep 0.5; "
        "for child in $(cat /proc/$launcher/task/$launcher/children); do "
        "tr '\\0' '\\n' < /proc/$child/environ > /out/variables; done; kill $launcher"
    )
    [pod] = pods.run("/out/script.py", before="export SLIPWAY_HOLD=500", after=look)
    event = pod.events[-1]
    assert (event["event"], event["rank"]) == ("held", 1)
    assert event["terminated"]["exitCode"] == pod.code == 5
    assert "exited with code 5" in pod.message["error"]
    assert json.loads(event["terminated"]["message"]) == pod.message
    assert "RANK=1" in (pods.directory / "variables").read_text().splitlines()


def test_sigterm_ends_every_process_of_the_pod(pods: Pods) -> None:
    stop = (
        "for i in $(seq 6000); do grep -q '\"step\"' $1.out && break; sleep 0.1; done;"
        "date +%s.%N > begun; kill -TERM $launcher"
    )
    arguments = ("-m", "slipway_trainer.mnist", "--epochs", "20")
    [pod] = pods.run(*arguments, after=stop)
    assert pod.code == 128 + signal.SIGTERM
    assert pod.seconds < _SECONDS_TO_NOTICE
    assert len(pod.of("terminated")) == 2
    assert "was terminated by SIGTERM" in pod.message["error"]


def test_files_of_all_processes_are_copied_out_also_after_a_failure(pods: Pods) -> None:
    (pods.directory / "script.py").write_text(
        "import os, time\n"
        "rank, directory = os.environ['RANK'], os.environ['SLIPWAY_OUTPUT_DIR']\n"
        "open(f'{directory}/{rank}', 'w').close()\n"
        # The first one to fail ends those that have not come so far.
        "while len(os.listdir(directory)) < int(os.environ['WORLD_SIZE']):\n"
        "    time.sleep(0.05)\n"
        "raise SystemExit(6)\n"
    )
    outputs = {"SLIPWAY_OUTPUT_DIR": "/tmp/outputs", "SLIPWAY_OUTPUTS": "file:///out/copies"}
    [pod] = pods.run("/out/script.py", before=_exports(outputs))
    assert pod.code == 6
    assert {path.name for path in (pods.directory / "copies").iterdir()} >= {"artifacts.json", "0"}
    assert pod.message["artifacts"]["0"]["url"] == "file:///out/copies/0"
