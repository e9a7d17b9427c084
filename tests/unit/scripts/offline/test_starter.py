"""A real plugin of pulumi-kubernetes always wins; the stand-in serves where there is none."""

import shutil
import subprocess
from pathlib import Path

import pytest

from core.paths import CHECKOUT

NAME = "pulumi-resource-kubernetes"


def program(file: Path, says: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f'#!/bin/sh\necho {says} "$@"\n')
    file.chmod(0o755)
    return file


@pytest.fixture
def starter(tmp_path: Path) -> Path:
    """The starter in a checkout whose Python says that it is the stand-in."""
    program(tmp_path / "checkout" / ".venv" / "bin" / "python", "stand-in")
    folder = tmp_path / "checkout" / "scripts" / "offline" / "bin"
    folder.mkdir(parents=True)
    return Path(shutil.copy(CHECKOUT / "scripts" / "offline" / "bin" / NAME, folder))


def started(starter: Path, *path: Path) -> str:
    """Return what the starter has started, with the home of Pulumi beside the checkout."""
    home = starter.parents[4] / "home"
    environment = {
        "PATH": ":".join(map(str, [*path, "/usr/bin", "/bin"])),
        "PULUMI_HOME": str(home),
    }
    command = [str(starter), "127.0.0.1:1"]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    ).stdout.strip()


def downloaded(starter: Path) -> Path:
    return starter.parents[4] / "home" / "plugins" / "resource-kubernetes-v4.34.2" / NAME


def test_the_stand_in_serves_where_there_is_no_plugin(starter: Path) -> None:
    said = "stand-in -m scripts.offline.kubernetes_standin 127.0.0.1:1"
    assert started(starter) == said
    # On PATH as well, as for projects that do not name it.
    assert started(starter, starter.parent) == said


def test_a_downloaded_plugin_wins(starter: Path) -> None:
    program(downloaded(starter), "downloaded")
    assert started(starter, starter.parent) == "downloaded 127.0.0.1:1"


def test_a_plugin_on_path_wins_over_both(starter: Path, tmp_path: Path) -> None:
    program(downloaded(starter), "downloaded")
    real = program(tmp_path / "a folder" / NAME, "real")
    assert started(starter, starter.parent, real.parent) == "real 127.0.0.1:1"


def test_a_starter_of_another_checkout_is_no_plugin(starter: Path, tmp_path: Path) -> None:
    other = program(tmp_path / "other" / "scripts" / "offline" / "bin" / NAME, "other")
    (other.parents[1] / "kubernetes_standin").mkdir()
    assert started(starter, other.parent, starter.parent).startswith("stand-in ")
