"""Where things are kept follows the XDG specification, and the environment follows its lock."""

from pathlib import Path

import pytest

from core import paths


def test_a_directory_is_where_its_variable_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for variable, function, default in (
        ("XDG_CACHE_HOME", paths.cache_dir, ".cache/slipway"),
        ("XDG_STATE_HOME", paths.state_dir, ".local/state/slipway"),
    ):
        monkeypatch.setenv(variable, "/elsewhere")
        assert function() == Path("/elsewhere/slipway")
        for ignored in ("", "relative/path"):
            monkeypatch.setenv(variable, ignored)
            assert function() == tmp_path / default
        monkeypatch.delenv(variable)
        assert function() == tmp_path / default


def test_another_lock_or_python_is_another_venv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "CHECKOUT", tmp_path)
    lock = tmp_path / "requirements.lock"
    lock.write_text("a==1")
    first = paths.venv_dir()
    assert paths.venv_dir() == first
    assert first.parent == paths.cache_dir()
    lock.write_text("a==2")
    second = paths.venv_dir()
    monkeypatch.setattr("core.paths.sys.version_info", (3, 99, 0))
    assert len({first, second, paths.venv_dir()}) == 3
