"""Which runs' files stay: the last one's, and the last one's that ended well."""

import time
from pathlib import Path

import pytest

from slipway_trainer.agent import kept


def left(root: Path) -> set[str]:
    return {path.name for path in root.iterdir() if path.is_dir()}


@pytest.mark.parametrize(
    ("ends", "stay"),
    [
        ([True], {"run-0"}),
        ([True, True, True], {"run-2"}),
        ([True, False], {"run-0", "run-1"}),
        ([True, False, False], {"run-0", "run-2"}),
        ([False, False], {"run-1"}),
        ([True, False, True], {"run-2"}),
    ],
)
def test_the_last_run_and_the_last_that_ended_well_stay(
    tmp_path: Path, ends: list[bool], stay: set[str]
) -> None:
    for number, is_success in enumerate(ends):
        run = tmp_path / f"run-{number}"
        (run / "replica-1").mkdir(parents=True)
        (run / "model.pt").write_text("weights")
        kept.prune(f"file://{tmp_path}", run.name, is_success=is_success)
    assert left(tmp_path) == stay
    assert all((tmp_path / run / "model.pt").exists() for run in stay)


def test_what_else_lies_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "run-0").mkdir()
    assert kept.prune(f"file://{tmp_path}", "run-1", is_success=False) == ["run-0"]
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_store_that_does_not_answer_is_given_up_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent:
        def exists(self, _: str) -> None:
            time.sleep(30)

    monkeypatch.setattr("fsspec.url_to_fs", lambda url: (Silent(), url))
    with pytest.raises(TimeoutError, match="reaching silent://here"):
        kept.reach("silent://here", seconds=0.1)
