"""A machine that has every tool, for tests of what is rendered from it."""

from pathlib import Path

import pytest

from clusters.embedded import KIND, pki
from clusters.embedded.layout import Layout
from core.toolchain import Tool, ToolMissing


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A cluster that has its keys and certificates, and nothing else."""
    made = Layout(tmp_path / "clusters" / "dev")
    pki.ensure(made)
    return made


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory with every tool that set-up provides: an empty file each, of version v1."""
    directory = tmp_path / "tools"
    directory.mkdir()

    def tool(name: str) -> Tool:
        if name not in KIND.tools:
            raise ToolMissing(name)
        path = directory / name
        if not path.exists():
            path.touch()
        return Tool(name, path, "v1")

    monkeypatch.setattr("core.toolchain.tool", tool)
    return directory
