"""Runs without the CLI."""

from collections.abc import Iterator

import pytest

from tests.engine.pytorchjob_stack import Jobs
from tests.runs.runner import Runs


@pytest.fixture
def runs(kubeconfig: str, trainer: str, jobs: Jobs) -> Iterator[Runs]:
    """Runs on the live cluster; those that a test leaves are removed."""
    made = Runs(kubeconfig, trainer, jobs)
    yield made
    made.leave()
