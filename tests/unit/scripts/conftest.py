"""Scratch copies for tests of what works in one."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scripts.scratch import Scratch


@pytest.fixture
def copy_of(tmp_path: Path) -> Iterator[Callable[[dict[str, str]], Scratch]]:
    """Return what makes a scratch copy of a checkout with these files, by path."""
    copies: list[Scratch] = []

    def make(files: dict[str, str]) -> Scratch:
        for name, text in files.items():
            file = tmp_path / "source" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        subprocess.run(["git", "init", "--quiet"], cwd=tmp_path / "source", check=True)
        copies.append(Scratch.copy_of(tmp_path / "source"))
        return copies[-1]

    yield make
    for each in copies:
        each.remove()
