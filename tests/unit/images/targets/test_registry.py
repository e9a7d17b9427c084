"""A push leaves no login on disk."""

from pathlib import Path
from typing import Any

import pytest

from images.targets import registry
from images.targets.registry import Registry
from tests.unit.images.objects import Listener


def test_the_login_that_a_killed_push_left_goes_with_the_next_push(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "cache_dir", lambda: tmp_path)
    login = tmp_path / "images" / "push-killed" / "config.json"
    login.parent.mkdir(parents=True)
    login.write_text("{}")
    seen: list[list[str]] = []

    def push(_self: Registry, _archive: Path, _reference: str, _runner: Any, work: Path) -> None:
        seen.append([each.name for each in work.parent.glob("push-*")])

    monkeypatch.setattr(Registry, "_push", push)
    Registry("example.org").load(tmp_path / "a.tar", "a:1", Listener())
    assert not login.exists()
    [[alone]] = seen
    assert not (tmp_path / "images" / alone).exists()
