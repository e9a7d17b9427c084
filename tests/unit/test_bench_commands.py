"""What a command costs: all of its processes count, whoever is their parent in the end."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.commands import Cost, measure

_BURN = "import time; began = time.process_time()\nwhile time.process_time() < began + 0.3: pass"


def cost(command: str) -> tuple[int, Cost]:
    """Return the command's exit status and what it cost."""
    return measure(subprocess.call, ["bash", "-c", command])


@pytest.mark.parametrize("orphaned", ["", "setsid --fork "])
def test_every_process_of_a_command_counts(orphaned: str) -> None:
    code, spent = cost(f"{orphaned}{sys.executable} -c '{_BURN}'; sleep 2; exit 3")
    assert code == 3
    assert spent.cpu >= 0.3


def test_pods_do_not_count(tmp_path: Path) -> None:
    shim = tmp_path / "containerd-shim-runc-v2"
    shim.symlink_to("/bin/bash")
    _, spent = cost(f"setsid --fork {shim} -c 'while ((SECONDS < 2)); do :; done'; sleep 3")
    assert spent.cpu < 0.5


def test_what_goes_on_is_not_waited_for() -> None:
    _, spent = cost("setsid --fork sleep 30")
    assert spent.wall < 30
