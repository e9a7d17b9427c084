"""The files of a user's stacks, of which this checkout's own are none."""

from pathlib import Path

import pytest

from scripts.cli import recovery


@pytest.fixture(autouse=True)
def _files_of_stacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test read the file of a stack that was brought up from this checkout."""
    monkeypatch.setattr(recovery, "own", lambda stack: tmp_path / f"folder/Pulumi.{stack}.yaml")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder, which is the project's."""
    place = tmp_path / "folder"
    place.mkdir()
    monkeypatch.setenv("SLIPWAY_PROJECT", str(place))
    return place
