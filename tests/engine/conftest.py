"""Stacks and a cluster for the tests that need real ones."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from clusters.embedded import KIND, lifecycle
from clusters.embedded.layout import Layout
from scripts.scratch import Scratch
from scripts.setup.provide import set_up
from tests.engine.embedded_cluster import TestCluster, kernel_parameters
from tests.engine.pytorchjob_stack import Jobs, JobStack
from tests.engine.stack import LiveStack


@contextmanager
def _own_stack(root: Path) -> Iterator[LiveStack]:
    """Yield a stack that is not up yet; whatever happens, leave nothing of it behind."""
    stack = LiveStack(Scratch.copy_of(root))
    try:
        yield stack
    finally:
        stack.down()
        stack.scratch.remove()


@pytest.fixture(scope="session")
def live_stack(root: Path) -> Iterator[LiveStack]:
    """The stack `dev`, brought up once for all tests; its `make down` is a test, too."""
    with _own_stack(root) as stack:
        stack.up()
        yield stack


@pytest.fixture(scope="session")
def idle_stack(root: Path) -> Iterator[LiveStack]:
    """A stack that is never up, for commands that make nothing."""
    with _own_stack(root) as stack:
        yield stack


@pytest.fixture(scope="session")
def mortal_stack(root: Path) -> Iterator[LiveStack]:
    """A stack whose `make up` tests kill: up, half made or not there, as the last one left it."""
    with _own_stack(root) as stack:
        yield stack


@pytest.fixture
def spare_stack(root: Path) -> Iterator[LiveStack]:
    """A stack of this test's own, not up yet."""
    with _own_stack(root) as stack:
        yield stack


@pytest.fixture
def job_stack(tmp_path: Path, root: Path, trainer: str, jobs: Jobs) -> Iterator[JobStack]:
    """A stack without jobs on that cluster; those that a test leaves in it are deleted."""
    made = JobStack(tmp_path, root, trainer, jobs)
    yield made
    made.leave()


@pytest.fixture(scope="module")
def module_stack(
    tmp_path_factory: pytest.TempPathFactory, root: Path, trainer: str, jobs: Jobs
) -> Iterator[JobStack]:
    """The same for all tests of a module, which brings it up once."""
    made = JobStack(tmp_path_factory.mktemp("stack"), root, trainer, jobs)
    yield made
    made.leave()


@pytest.fixture
def scratch(root: Path) -> Iterator[Scratch]:
    """A user's checkout."""
    made = Scratch.copy_of(root)
    yield made
    made.remove()


@pytest.fixture(scope="session")
def internet_tool() -> None:
    """Set up the tool that only stacks with `internet` need."""
    kind = replace(KIND, tools=(*KIND.tools, KIND.tool_of_setting["internet"]))
    assert set_up(kind, brief=True, build=False) == 0


@pytest.fixture(scope="session")
def kernel_before() -> list[str]:
    """The machine's kernel parameters before there was `cluster`."""
    return kernel_parameters()


@pytest.fixture(scope="session")
def cluster(
    kernel_before: list[str],  # noqa: ARG001 - they are read before it is made
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[TestCluster]:
    """An embedded cluster without an operator, whose first create was killed half-way.

    Whose tests use it leaves nothing in it; those in test_embedded_cluster.py hurt and remove it.
    """
    made = TestCluster(Layout(tmp_path_factory.mktemp("embedded") / "cluster"))
    try:
        made.create_and_kill_halfway()
        made.heal()
        yield made
    finally:
        lifecycle.remove(made.layout.directory)
