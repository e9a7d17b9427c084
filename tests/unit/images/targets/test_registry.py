"""A push leaves no login on disk."""

from pathlib import Path
from typing import Any

import pytest

from images.build import engines
from images.targets.registry import Registry
from tests.unit.images.objects import Listener


def test_the_login_that_a_killed_push_left_goes_with_the_next_push(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(engines, "choose", lambda *_: engines.Docker())
    images = tmp_path / "slipway" / "images"
    login = images / "work" / "killed" / "config.json"
    login.parent.mkdir(parents=True)
    login.write_text("{}")
    seen: list[list[Path]] = []

    def push(_self: Registry, *_: Any) -> None:
        seen.append(list((images / "work").iterdir()))

    monkeypatch.setattr(Registry, "_push", push)
    Registry("example.org").load(tmp_path / "a.tar", "a:1", Listener())
    assert not login.exists()
    assert seen == [[]]
    assert not (images / "work").exists()
