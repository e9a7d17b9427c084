"""Runs that do not succeed fail `pulumi up`, which tells why; how they end is in tests/runs."""

import re
import secrets

import pytest

from tests.engine.cli_stack import Outcome
from tests.engine.job_programs import FAILING, REFUSAL, REFUSED, SLEEPING, TRACKED, python
from tests.engine.pytorchjob_stack import JobStack

MISSING = "localhost/there-is-no-such-image:1"


@pytest.fixture(scope="module")
def mark() -> str:
    """What the names of these jobs begin with."""
    return f"own-{secrets.token_hex(4)}"


@pytest.fixture(scope="module")
def fallen(module_stack: JobStack, mark: str, trainer: str) -> Outcome:
    """An `up` of four jobs, only one of which succeeds."""
    declared = {
        f"{mark}-fails": python(trainer, FAILING),
        f"{mark}-missing": python(MISSING, SLEEPING, "0"),
        f"{mark}-refused": python(trainer, SLEEPING, labels=REFUSED),
        f"{mark}-tells": python(trainer, TRACKED, workers=0),
    }
    return module_stack.attempt("up", environment=module_stack.environment(**declared))


def test_up_fails_and_explains_every_failed_run(fallen: Outcome, mark: str) -> None:
    """The end of the failing rank's log is shown, and no traceback of ours.

    It includes that of the container before.
    """
    assert fallen.code != 0
    said = fallen.text
    assert f"job {mark}-fails ended Failed: rank 1 ({mark}-fails-worker-0) exited with" in said
    assert "rank 1 is about to fail" in said
    assert f"job {mark}-missing ended CannotStart" in said
    assert MISSING in said
    assert f"job {mark}-refused ended CannotStart: refused:" in said
    assert REFUSAL in said
    assert "Traceback" not in said


@pytest.mark.usefixtures("fallen")
def test_every_run_leaves_its_result_in_the_outputs(module_stack: JobStack, mark: str) -> None:
    """Succeeded, Failed, TimedOut and CannotStart are different ends, which `pulumi up` names."""
    ends = {"fails": "Failed", "missing": "CannotStart", "refused": "CannotStart"}
    for name, end in {**ends, "tells": "Succeeded"}.items():
        assert module_stack.output(f"{mark}-{name}")["state"] == end
    failed = module_stack.output(f"{mark}-fails")
    assert failed["exit_codes"]["1"] == 3
    assert failed["failure"]["log"] == ["rank 1 is about to fail"]


def test_the_row_of_a_run_shows_its_progress(fallen: Outcome, mark: str) -> None:
    """A run's row tells state, epoch, loss, accuracy, samples/s and the time left."""
    row = [line for line in fallen.text.splitlines() if f"{mark}-tells" in line]
    assert any(re.search(r"epoch 1/2, loss 1\.0000, accuracy 0\.5000", line) for line in row), row


@pytest.mark.usefixtures("fallen")
def test_after_a_failure_a_plain_up_trains_again_and_says_why(
    module_stack: JobStack, mark: str, trainer: str
) -> None:
    """After a failure, a plain `pulumi up` trains again."""
    assert "trains again:" not in module_stack.refresh().text
    fixed = module_stack.train(f"{mark}-fails", **python(trainer, SLEEPING, "0"))
    assert "trains again:" in fixed.text
    assert "the last run ended Failed: rank 1" in fixed.text
    assert module_stack.output(f"{mark}-fails")["state"] == "Succeeded"
