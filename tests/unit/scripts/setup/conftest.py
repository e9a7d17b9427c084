"""An empty cache, and a console that keeps what is printed, for tests of set-up."""

import io
from pathlib import Path

import pytest
from rich.console import Console


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of Slipway's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "slipway"


@pytest.fixture
def console() -> Console:
    """A console whose `export_text` returns what was printed since."""
    return Console(file=io.StringIO(), soft_wrap=True, width=300, record=True)
