"""A tool is where `make setup` recorded it; whatever else is the case, the next step is said."""

import json
from pathlib import Path

import pytest

from core import toolchain
from core.toolchain import ToolMissing

_RUNC = {"path": "/nowhere/runc", "version": "v1.2.3", "origin": "on PATH", "size": 3}
_RECORD = json.dumps({"tools": {"runc": _RUNC}})


@pytest.mark.parametrize(
    ("content", "tool", "says"),
    [
        (_RECORD, "kubelet", r"^kubelet: not among .* Run `make setup`\.$"),
        (_RECORD, "runc", r"^runc: /nowhere/runc no longer exists\. Run `make setup`\.$"),
        (None, "runc", "Run `make setup`"),
        *((odd, "runc", "Run `make setup`") for odd in ("{", "[]", '{"tools": {"runc": {}}}')),
    ],
    ids=["not recorded", "has gone", "no record", "half a record", "a list", "no path"],
)
def test_a_tool_that_is_not_there_is_named_and_set_up_asked_for(
    content: str | None, tool: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    place = toolchain.record()
    place.parent.mkdir()
    if content is not None:
        place.write_text(content)
    with pytest.raises(ToolMissing, match=says):
        toolchain.path(tool)
