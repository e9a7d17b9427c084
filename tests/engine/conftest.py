"""A live stack for the tests that need a real engine and a real API server.

With SLIPWAY_TEST_KUBECONFIG set to a file, tests that need only an API server use that one.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scripts.scratch import Scratch
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
