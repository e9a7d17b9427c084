"""What a command costs: all of its processes count, whoever is their parent in the end."""

import subprocess
import sys

import pytest

from scripts.bench_commands import Cost, measure

_BURN = "import time; began = time.process_time()\nwhile time.process_time() < began + 0.3: pass"


def cost(command: str) -> tuple[int, Cost]:
    """Return the command's exit status and what it cost."""
    return measure(subprocess.call, ["bash", "-c", command])


@pytest.mark.parametrize("orphaned", ["", "setsid --fork "])
def test_every_process_of_a_command_counts(orphaned: str) -> None:
    code, spent = cost(f"{orphaned}{sys.executable} -c '{_BURN}'; sleep 2; exit 3")
    assert code == 3
    assert spent.cpu >= 0.3


def test_what_goes_on_is_not_waited_for() -> None:
    _, spent = cost("setsid --fork sleep 30")
    assert spent.wall < 30
