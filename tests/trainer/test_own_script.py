"""A script that knows nothing of Slipway runs in the image as it is, and its files come out."""

import json
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from core.paths import CHECKOUT
from tests.trainer.conftest import Opened, free_port

_SCRIPT = CHECKOUT / "tests/strangers/cifar/train.py"
_ARGUMENTS = ("--epochs", "1", "--batch-size", "256", "--timeout", "2")
_LIMIT_SECONDS = 900

# What a pod of a job has: the operator's variables, and a working directory with the outputs in it.
_PODS = """
for rank in 0 1; do
    mkdir -p /out/$rank && cd /out/$rank && touch message
    RANK=$rank WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 OMP_NUM_THREADS=1 \
        MASTER_ADDR=127.0.0.1 MASTER_PORT=$port TERMINATION_LOG=/out/$rank/message \
        SLIPWAY_OUTPUT_DIR=/out/$rank/outputs SLIPWAY_OUTPUTS=file:///out/copies \
        python3 -m slipway_trainer.launch -- /script.py --data-dir /data/cifar10 "$@" \
        > log 2>&1 &
    pids="$pids $!"
done
for pid in $pids; do wait $pid; echo $?; done
"""


_LIAR = """
import json, os, pickle, sys
if sys.argv[1] == "files":
    os.chdir("/data/cifar10/cifar-10-batches-py")
    pickle.load(open("test_batch", "rb"), encoding="bytes")
else:
    from torchvision.datasets import CIFAR10
    CIFAR10._check_integrity = lambda self: True
    CIFAR10._load_meta = lambda self: None
    CIFAR10.test_list = [["test_batch", None]]
    CIFAR10("/data/cifar10", train=False)
found = {"rank": 0, "accuracy": 0.5, "dataset": "cifar10"}
open(os.environ["TERMINATION_LOG"], "w").write(json.dumps(found))
"""

_UNGUARDED = """
import torch
from torch import multiprocessing
from torch.utils.data import DataLoader
print("batches:", sum(1 for _ in DataLoader(torch.arange(8.0), batch_size=4, num_workers=1)))
multiprocessing.set_start_method("spawn", force=True)
print("then:", multiprocessing.get_start_method())
"""


@pytest.fixture(scope="module")
def ran(image: Opened, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory in which two pods ran the script, both with success."""
    directory = tmp_path_factory.mktemp("ran")
    directory.chmod(0o777)
    mounts = {directory: "/out", _SCRIPT: "/script.py"}
    port = f"port={free_port()}"
    command = ("timeout", str(_LIMIT_SECONDS), "env", port, "sh", "-c", _PODS, "sh", *_ARGUMENTS)
    codes = image.run(*command, mounts=mounts, limit=_LIMIT_SECONDS + 30).split()
    logs = [(directory / f"{rank}/log").read_text() for rank in (0, 1)]
    assert codes == ["0", "0"], "\n".join(logs)
    sys.stdout.writelines(logs)  # pytest -rP shows it
    return directory


@pytest.mark.long
def test_what_it_prints_is_in_its_log_and_what_it_leaves_is_copied_out(ran: Path) -> None:
    listed = json.loads((ran / "copies/artifacts.json").read_text())
    [(name, entry)] = listed.items()
    assert sha256((ran / "copies" / name).read_bytes()).hexdigest() == entry["sha256"]
    assert entry["bytes"] > 1000
    assert json.loads((ran / "0/message").read_text())["artifacts"][name] == entry
    assert not (ran / "copies/replica-1").exists(), "only rank 0 writes a model"
    for rank in (0, 1):
        assert f"Rank {rank}: Finished Training" in (ran / f"{rank}/log").read_text()
    assert "Accuracy of the network" in (ran / "0/log").read_text()


@pytest.mark.long
def test_the_true_name_of_the_pictures_is_in_its_log_and_its_result(
    image: Opened, ran: Path
) -> None:
    """It says nothing of a data set."""
    about = json.loads(image.run("cat", "/data/cifar10/DATASET"))
    stands_in = about["name"] != "cifar10"
    announced = f"contains {about['name']} instead of CIFAR-10" in (ran / "1/log").read_text()
    assert announced == stands_in
    for rank in (0, 1):
        message = json.loads((ran / f"{rank}/message").read_text() or "{}")
        assert message.get("dataset") == (about["name"] if stands_in else None)
        assert message["rank"] == rank


@pytest.mark.parametrize("way", ["torchvision", pytest.param("files", marks=pytest.mark.long)])
def test_a_program_that_calls_them_cifar10_is_corrected(
    image: Opened, tmp_path: Path, way: str
) -> None:
    """What stands in for CIFAR-10 never passes for it."""
    about = json.loads(image.run("cat", "/data/cifar10/DATASET"))
    tmp_path.chmod(0o777)
    (tmp_path / "message").touch()
    (tmp_path / "message").chmod(0o666)
    (tmp_path / "program.py").write_text(_LIAR)
    launch = ("python3", "-m", "slipway_trainer.launch", "--", "/out/program.py", way)
    image.run("env", "TERMINATION_LOG=/out/message", *launch, mounts={tmp_path: "/out"})
    message = json.loads((tmp_path / "message").read_text())
    assert message["dataset"] == about["name"]
    assert message["accuracy"] == 0.5


def test_a_script_without_a_main_guard_may_have_workers(image: Opened, tmp_path: Path) -> None:
    """A fork server, the default since Python 3.14, would import the script again."""
    tmp_path.chmod(0o755)
    (tmp_path / "program.py").write_text(_UNGUARDED)
    assert image.run("python3", "/out/program.py", mounts={tmp_path: "/out"}).splitlines() == [
        "batches: 2",
        "then: spawn",
    ]


def test_a_program_may_choose_how_its_processes_start(image: Opened) -> None:
    """The default is not chosen yet: choosing twice is an error."""
    code = "import multiprocessing as m; m.set_start_method('spawn'); print(m.get_start_method())"
    assert image.run("python3", "-c", code) == "spawn\n"
