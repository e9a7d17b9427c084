"""What a command costs: all of its processes count, whoever is their parent in the end."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import costs

_BURN = "import time; began = time.process_time()\nwhile time.process_time() < began + 0.3: pass"


def cost(tmp_path: Path, command: str) -> tuple[int, dict[str, float]]:
    """Return the command's exit status and what it cost."""
    file = tmp_path / "costs"
    code = subprocess.call([sys.executable, costs.__file__, str(file), command])
    return code, json.loads(file.read_text())


@pytest.mark.parametrize("orphaned", ["", "setsid --fork "])
def test_every_process_of_a_command_counts(tmp_path: Path, orphaned: str) -> None:
    code, spent = cost(tmp_path, f"{orphaned}{sys.executable} -c '{_BURN}'; sleep 2; exit 3")
    assert code == 3
    assert spent["cpu"] >= 0.3


def test_what_goes_on_is_not_waited_for(tmp_path: Path) -> None:
    _, spent = cost(tmp_path, "setsid --fork sleep 30")
    assert spent["wall"] < 30
