"""Runs without the CLI."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.engine.pytorchjob_stack import Jobs
from tests.runs.runner import Runs


@pytest.fixture
def runs(kubeconfig: str, trainer: str, jobs: Jobs) -> Iterator[Runs]:
    """Runs on the live cluster; those that a test leaves are removed."""
    made = Runs(kubeconfig, trainer, jobs)
    yield made
    made.leave()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project's folder, with a stack `test` that allows commands in its jobs' pods."""
    monkeypatch.setenv("SLIPWAY_PROJECT", str(tmp_path))
    config = {"slipway:cluster": {"kind": "kubeconfig"}, "slipway:exec": True}
    (tmp_path / "Pulumi.test.yaml").write_text(yaml.safe_dump({"config": config}))
    return tmp_path
