"""What unit tests share: none of them touches the state of the user's own stacks."""

from itertools import count
from pathlib import Path

import pytest

_numbers = count()


@pytest.fixture(scope="session")
def directory_of_states(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory below which each test has its own state."""
    return tmp_path_factory.mktemp("states")


@pytest.fixture(autouse=True)
def _own_state(monkeypatch: pytest.MonkeyPatch, directory_of_states: Path) -> None:
    """Give a test a state of its own, which it need not make."""
    monkeypatch.setenv("XDG_STATE_HOME", str(directory_of_states / str(next(_numbers))))
