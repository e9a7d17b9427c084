"""Scripts that know nothing of Slipway run in the image as they are."""

import json
from pathlib import Path

import pytest

from tests.trainer.conftest import Opened

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


@pytest.mark.parametrize("way", ["torchvision", pytest.param("files", marks=pytest.mark.long)])
def test_a_program_that_calls_them_cifar10_is_corrected(
    image: Opened, tmp_path: Path, way: str
) -> None:
    """What stands in for CIFAR-10 never passes for it."""
    about = json.loads(image.run("cat", "/data/cifar10/DATASET"))
    (tmp_path / "program.py").write_text(_LIAR)
    launch = ("python3", "-m", "slipway_trainer.launch", "--", "/out/program.py", way)
    [pod] = image.pods(tmp_path, *launch, ranks=1)
    assert pod.code == 0, pod.errors
    assert (pod.message["dataset"], pod.message["accuracy"]) == (about["name"], 0.5)


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
