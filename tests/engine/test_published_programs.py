"""Programs of the habits that are published run side by side, as their entries have them.

Each program and its entry are in tests/strangers/, but for the loop written for ElasticDL.
"""

import re
from collections.abc import Iterator
from fnmatch import fnmatch
from typing import Any

import pytest
import yaml

from core.paths import CHECKOUT
from jobs.imported import imported
from scripts.cli.from_yaml import documents
from tests.engine.stack import LiveStack

_STRANGERS = CHECKOUT / "tests/strangers"
_ELASTICDL = CHECKOUT / "examples/elasticdl/README.md"
_NAMES = ("accel", "hosts", "spawn", "cifar")
DEMO = "pytorch-dist-mnist-gloo-demo"

pytestmark = pytest.mark.long


def entries() -> dict[str, Any]:
    """Return the entry of each program: the demo's is imported, but for an image to be built."""
    files = {name: _STRANGERS / f"{name}.entry.yaml" for name in _NAMES}
    found = {name: yaml.safe_load(file.read_text()) for name, file in files.items()}
    (demo,) = documents(str(_STRANGERS / "gloo_demo/job.yaml"))
    name, entry, _ = imported(demo)
    built = yaml.safe_load((_STRANGERS / "gloo_demo.entry.yaml").read_text())
    del entry["image"]
    assert entry.items() <= built.items()
    (block,) = re.findall(r"```yaml\n(.*?)```", _ELASTICDL.read_text(), re.DOTALL)
    return {**found, name: built, **yaml.safe_load(block)["config"]["slipway:jobs"]}


@pytest.fixture(scope="module")
def trained(live_stack: LiveStack) -> Iterator[LiveStack]:
    """The stack with these jobs, which meet their gates; it becomes what it was in the end."""
    with live_stack.configured(jobs=entries()):
        live_stack.up()
        yield live_stack
    live_stack.up()


def _log(stack: LiveStack, job: str, rank: int) -> str:
    return stack.run(f"make logs JOB={job} RANK={rank} FOLLOW=0").output


def test_a_program_with_a_launcher_of_its_own_runs_with_its_numbers_and_files_kept(
    trained: LiveStack,
) -> None:
    entry, result = entries()["accel"], trained.job("accel")
    numbers = {**result, **result.get("metrics", {})}  # loss and accuracy stand beside the others
    assert entry["metrics"].keys() <= numbers.keys()
    for pattern in entry["keep"]:
        assert any(fnmatch(path, f"*{pattern}") for path in result["artifacts"]), pattern


def test_each_habit_is_met(trained: LiveStack) -> None:
    """Own entrypoints, ranks as arguments, processes of a pod's own, data and models, ElasticDL."""
    results = {name: trained.job(name) for name in ("hosts", "spawn", "cifar", "elasticdl")}
    for rank in range(4):
        assert "Using distributed PyTorch with gloo backend" in _log(trained, DEMO, rank)

    run_id = results["hosts"]["run_id"]
    for rank in range(3):
        assert f"Run {run_id} Rank {rank} of 3 , epoch 0" in _log(trained, "hosts", rank)
    assert f"{run_id}.pt" in results["hosts"]["artifacts"]

    assert "rank 1, world size: 2" in _log(trained, "spawn", 0)
    assert {"mnist_cnn.pt", "mnist_cnn_accuracies.json"} <= results["spawn"]["artifacts"].keys()

    assert "Rank 1: Finished Training" in _log(trained, "cifar", 1)
    assert any("cifar_net.pt" in path for path in results["cifar"]["artifacts"])

    assert results["elasticdl"]["accuracy"] >= 0.8
