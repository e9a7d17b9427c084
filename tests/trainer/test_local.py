"""Published programs run without a cluster, in a Python that has torch: the trainer's image's."""

import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from core.paths import CHECKOUT, cache_dir
from jobs.result import RunResult
from jobs.run.gate import missed
from tests.trainer.conftest import Opened

_LIMIT_SECONDS = 600


@pytest.fixture
def local(image: Opened, tmp_path: Path) -> "Local":
    if sys.base_prefix == "/usr":
        pytest.skip("this Python can't be in the image beside the image's own")
    return Local(image, tmp_path)


class Local:
    """The command, in the image beside its torch."""

    def __init__(self, image: Opened, directory: Path) -> None:
        self._image, self._directory = image, directory

    def run(self, name: str, **fields: Any) -> tuple[dict[str, Any], str]:
        """Run a job; return its result and what was printed."""
        document = {"config": {"slipway:jobs": {name: fields}}}
        (self._directory / "Pulumi.mine.yaml").write_text(yaml.safe_dump(document))
        same = (CHECKOUT, cache_dir(), sys.base_prefix)
        mounts = [*(f"{each}:{each}:ro" for each in same), f"{self._directory}:/out"]
        environment = {"SLIPWAY_PROJECT": "/out", "XDG_STATE_HOME": "/out/state", "PYTHONPATH": ""}
        printed = self._image.buildah(
            *("run", "--isolation=chroot", "--user=0", f"--workingdir={CHECKOUT}"),
            *(f"--volume={each}" for each in mounts),
            *(f"--env={key}={value}" for key, value in environment.items()),
            *(self._image._container, "--", "sh", "-c", '"$@" 2>&1 || echo "ended with $?"', "sh"),
            *(sys.executable, "-m", "scripts.cli", "local", name, "--stack=mine"),
            limit=_LIMIT_SECONDS,
        )
        runs = self._directory / "state/slipway/local"
        *_, file = sorted(runs.glob(f"*/runs/{name}/*/result.json"))
        return json.loads(file.read_text()), printed


@pytest.mark.long
@pytest.mark.parametrize("name", ["hosts", "spawn"])
def test_a_published_program_passes_its_gates_without_a_cluster(local: Local, name: str) -> None:
    """Its entry is the one that `engine/test_published_programs.py` trains in a cluster."""
    entry = yaml.safe_load((CHECKOUT / f"tests/strangers/{name}.entry.yaml").read_text())
    result, printed = local.run(name, **{**entry, "script": str(CHECKOUT / entry["script"])})
    assert result["state"] == "Succeeded", printed
    numbers = {**result, **result.get("metrics", {})}
    assert entry["metrics"].keys() <= numbers.keys()
    assert [*missed({"require": entry["require"]}, RunResult.from_map(result))] == []
    assert result["artifacts"]


_DDP = """
import os, time, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
import slipway

dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(784, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    if step == 2 and os.environ.get("FAILS") == os.environ["RANK"]:
        raise ValueError("label 11 is out of range")
    optimizer.zero_grad()
    model(torch.rand(64, 784)).square().mean().backward()
    optimizer.step()
    slipway.log(step=step, began=time.time())
slipway.finish(threads=torch.get_num_threads())
dist.destroy_process_group()
"""


@pytest.mark.long
def test_ranks_train_together_and_their_first_step_comes_within_ten_seconds(
    local: Local, tmp_path: Path
) -> None:
    """Published programs pass their gates in a Python with torch; the first step comes in 10 s."""
    (tmp_path / "ddp.py").write_text(_DDP)
    for processes in (1, 2):
        begun = time.time()
        result, printed = local.run(
            "ddp", script="ddp.py", workers=2 - processes, processesPerNode=processes
        )
        assert (result["state"], result["world_size"]) == ("Succeeded", 2), printed
        assert "apart" not in result
        assert result["metrics"]["threads"] == 1
        stepped = min(map(float, re.findall(r'"began": ([0-9.]+)', printed)))
        assert stepped - begun < 10


@pytest.mark.long
def test_the_rank_that_took_its_peer_along_is_named(local: Local, tmp_path: Path) -> None:
    (tmp_path / "ddp.py").write_text(_DDP)
    result, printed = local.run("ddp", script="ddp.py", workers=1, env={"FAILS": "1"})
    assert result["state"] == "Failed"
    error = "ValueError: label 11 is out of range, ddp.py:12"
    assert result["reason"] == f"rank 1 (ddp-worker-0) exited with code 1: {error}", printed
    assert printed.endswith("ended with 1\n")
