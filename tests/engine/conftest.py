"""A live stack for the tests that need a real engine and a real API server.

With SLIPWAY_TEST_KUBECONFIG set to a file, tests that need only an API server use that one.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scripts.scratch import Scratch
from tests.engine.pytorchjob_stack import Jobs, JobStack
from tests.engine.stack import LiveStack


@contextmanager
def _own_stack(root: Path) -> Iterator[LiveStack]:
    """Yield a stack that is not up yet; whatever happens, leave nothing of it behind."""
    stack = LiveStack(Scratch.of(root))
    stack.take_baseline()
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


@pytest.fixture
def spare_stack(root: Path) -> Iterator[LiveStack]:
    """A stack of this test's own, not up yet."""
    with _own_stack(root) as stack:
        yield stack


@pytest.fixture(scope="session")
def kubeconfig(request: pytest.FixtureRequest) -> str:
    """The content of a kubeconfig with all rights on a live cluster."""
    given = os.environ.get("SLIPWAY_TEST_KUBECONFIG")
    if given is not None:
        return Path(given).read_text()
    stack: LiveStack = request.getfixturevalue("live_stack")
    return stack.kubeconfig


@pytest.fixture(scope="session")
def kubeconfig_file(kubeconfig: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same as a file that only its owner can read."""
    file = tmp_path_factory.mktemp("cluster") / "kubeconfig"
    file.touch(0o600)
    file.write_text(kubeconfig)
    return file


@pytest.fixture(scope="session")
def jobs(kubeconfig_file: Path) -> Jobs:
    """The namespace of the jobs on that cluster."""
    return Jobs(kubeconfig_file)


@pytest.fixture(scope="session")
def trainer(jobs: Jobs) -> str:
    """The trainer's image that its node has."""
    return jobs.image()


@pytest.fixture
def job_stack(tmp_path: Path, root: Path, kubeconfig: str, trainer: str) -> Iterator[JobStack]:
    """A stack without jobs on that cluster; those that a test leaves in it are deleted."""
    made = JobStack(tmp_path, root, kubeconfig, trainer)
    yield made
    made.leave()


@pytest.fixture
def job_name(jobs: Jobs) -> Iterator[str]:
    """A job's name that nobody else has; nothing of it must be left in the end."""
    made = f"own-{secrets.token_hex(4)}"
    yield made
    assert jobs.uids(made) == []
    assert jobs.items("pods", made) == []
