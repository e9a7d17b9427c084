"""What runs without a cluster runs in one, with the same result but for times and places."""

from pathlib import Path

import pytest

from core.paths import CHECKOUT
from tests.portable.results import ENTRIES, lasting, run_here
from tests.runs.runner import Runs


@pytest.mark.long
@pytest.mark.parametrize("name", ENTRIES)
def test_a_job_has_the_same_result_here_and_in_a_cluster(
    name: str, runs: Runs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    train = runs.train_in_vain if name in {"fails", "follows"} else runs.train
    train(name, **ENTRIES[name])
    there = lasting(runs.output(name))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("SLIPWAY_PROJECT", str(tmp_path))
    (tmp_path / "tests").symlink_to(CHECKOUT / "tests")
    code, result = run_here(name, ENTRIES[name])
    here = lasting(result)
    # The runs of this fixture have no volume that keeps their files.
    here.pop("files", None)
    assert here == there
    assert code == (result["state"] != "Succeeded")
