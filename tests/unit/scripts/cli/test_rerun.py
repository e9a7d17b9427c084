"""`make rerun` finds the run by the job's name."""

from typing import Any

import pytest

from scripts.cli import commands
from scripts.cli.commands import run_urns
from scripts.cli.terminal import CommandError
from tests.unit.scripts.cli.kept_state import resource

MINE, OTHER = (resource("slipway:jobs:PyTorchJob", name) for name in ("mine", "other"))
OLD = resource("slipway:jobs:PyTorchJob", "old", delete=True)
EXPORT = {"deployment": {"resources": [MINE, OTHER, OLD, resource("slipway:jobs:Gate", "mine")]}}


def test_a_run_is_found_by_its_name() -> None:
    assert run_urns(EXPORT) == {"mine": MINE["urn"], "other": OTHER["urn"]}


@pytest.mark.parametrize(
    ("export", "job", "words"),
    [
        (EXPORT, "othre", ["'othre'", "Did you mean other?", "Jobs with a run: mine, other."]),
        (EXPORT, "", ["JOB=NAME", "Jobs with a run: mine, other."]),
        ({}, "mine", ["has no runs yet", "make up STACK=dev"]),
    ],
)
def test_an_unknown_job_lists_the_existing_ones(
    export: dict[str, Any], job: str, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "exported", lambda _stack: export)
    with pytest.raises(CommandError) as caught:
        commands.rerun("dev", job)
    for word in words:
        assert word in str(caught.value)
