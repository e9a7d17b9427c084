"""The programs that build images: which one is taken, and what it is told."""

from pathlib import Path

import pytest

from core.toolchain import ToolMissing
from images.build import engines
from tests.unit.shell_program import shell_program


def test_podman_builds_in_layers_also_once_it_has_images(tmp_path: Path) -> None:
    """It knows no field Name, and without images it does not look at the format."""
    refuses = """case "$*" in *.Name*) echo "can't evaluate field Name" >&2; exit 125 ;; esac"""
    podman = shell_program(tmp_path / "podman", refuses)
    assert engines.with_storage("podman", str(podman), tmp_path, tmp_path).keeps_steps
