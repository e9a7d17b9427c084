"""Published programs run without a cluster, in a Python that has torch: the trainer's image's."""

import json
import sys
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
