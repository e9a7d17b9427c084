"""README.md tells a person commands that are there; tests/engine runs them."""

import json
import subprocess
from functools import cache
from pathlib import Path

import pytest
import yaml

from infra.settings import parse
from tests import readme

_RUN = [each for each in readme.all_commands() if each.startswith(("make ", "scripts/"))]


@cache
def targets(root: Path) -> set[str]:
    """Return the Makefile's targets, as make itself reads them."""
    database = subprocess.run(
        ["make", "--question", "--print-data-base", "--no-builtin-rules", "help"],
        cwd=root, capture_output=True, text=True, check=False,
    ).stdout  # fmt: skip
    lines = (line for line in database.splitlines() if not line.startswith(("#", "\t", ".", " ")))
    return {line.split(":")[0] for line in lines if ":" in line and "=" not in line}


@pytest.mark.parametrize("command", _RUN)
def test_a_command_names_a_target_or_a_script_that_can_be_run(command: str, root: Path) -> None:
    program, *words = command.split()
    if program == "make":
        [target] = [word for word in words if "=" not in word and not word.startswith("-")]
        assert target in targets(root)
    else:
        assert (root / program).stat().st_mode & 0o111, "it is not executable"


def test_a_plain_script_becomes_a_gated_job_with_its_model_on_the_disk_in_under_ten_lines() -> None:
    """tests/trainer/test_frameworks.py makes the difference and trains with it."""
    [settings] = readme.settings()
    config = yaml.safe_load(settings)["config"]
    [job] = parse({key: json.dumps(value) for key, value in config.items()}, "dev").jobs
    assert job.require
    entry = settings.partition("slipway:jobs:\n")[2].splitlines()
    typed = {"make up", "make fetch JOB=mine TO=model"}
    assert all(f"`{each}`" in readme.sections()["Your own job"] for each in typed)
    assert len([*readme.difference()[1], *entry, *typed]) < 10
