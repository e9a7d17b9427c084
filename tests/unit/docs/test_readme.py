"""README.md tells a person commands that are there; tests/engine runs them."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from infra.settings import parse
from tests import readme

_COMMANDS = readme.all_commands()


def targets(root: Path) -> set[str]:
    """Return the Makefile's targets, as make itself reads them."""
    database = subprocess.run(
        ["make", "--question", "--print-data-base", "--no-builtin-rules", ":"],
        cwd=root, capture_output=True, text=True, check=False,
    ).stdout  # fmt: skip
    lines = (line for line in database.splitlines() if not line.startswith(("#", "\t", ".", " ")))
    return {line.split(":")[0] for line in lines if ":" in line and "=" not in line}


@pytest.mark.parametrize("command", [c for c in _COMMANDS if c.startswith("make ")])
def test_a_make_command_names_a_target(command: str, root: Path) -> None:
    words = [word for word in command.split()[1:] if "=" not in word and not word.startswith("-")]
    assert len(words) == 1, command
    assert words[0] in targets(root)


@pytest.mark.parametrize("command", [c for c in _COMMANDS if c.startswith("scripts/")])
def test_a_script_can_be_run(command: str, root: Path) -> None:
    script = root / command.split(maxsplit=1)[0]
    assert script.stat().st_mode & 0o111, f"{script} is not executable"


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


def test_a_kubeconfig_is_written_where_its_owner_alone_reads_it(root: Path) -> None:
    pages = [root / "README.md", *(root / "docs").glob("*.md")]
    lines = [line for page in pages for line in page.read_text().splitlines()]
    written = [line for line in lines if "output kubeconfig" in line and ">" in line]
    assert [line for line in written if not line.startswith("(umask 077; ")] == []
