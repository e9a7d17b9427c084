"""A tool is where `make setup` recorded it; whatever else is the case, the next step is said."""

import json
from pathlib import Path

import pytest

from core import toolchain
from core.toolchain import ToolMissing


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The record's place in an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    place = toolchain.record()
    place.parent.mkdir()
    return place


def test_a_tool_that_is_not_recorded_or_has_gone_is_named(record: Path, tmp_path: Path) -> None:
    gone = tmp_path / "runc"
    entry = {"path": str(gone), "version": "v1.2.3", "origin": "on PATH", "size": 3}
    record.write_text(json.dumps({"tools": {"runc": entry}}))
    with pytest.raises(ToolMissing, match=r"^kubelet: not among .* Run `make setup`\.$"):
        toolchain.path("kubelet")
    with pytest.raises(ToolMissing, match=rf"^runc: {gone} no longer exists\. Run `make setup`\.$"):
        toolchain.path("runc")


@pytest.mark.parametrize("content", [None, "{", "[]", '{"tools": {"runc": {}}}'])
def test_without_a_readable_record_set_up_is_asked_for(content: str | None, record: Path) -> None:
    if content is not None:
        record.write_text(content)
    with pytest.raises(ToolMissing, match="Run `make setup`"):
        toolchain.path("runc")
