"""A model of 1 GiB goes on when a worker is lost, and its replacement gets all of it."""

from pathlib import Path

import pytest

from tests.trainer.conftest import Opened
from tests.trainer.elastic_jobs import Blow, Job, run

_STEPS = 6
_AFTER_STEP = 2
_MOST_GIB = 12


@pytest.mark.long
def test_a_replacement_gets_a_model_of_1_gib(
    image: Opened, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An elastic model of 1 GiB re-forms.

    A replacement gets its weights, equal on both workers, within 12 GiB of memory (`make
    test-long`).
    """
    env = {"MIB": "1024", "STEPS": str(_STEPS)}
    program = ("/out/scripts/elastic_large.py",)
    job = Job(program, [Blow(1, _AFTER_STEP, replace=0)], workers=2, nodes="2:2", env=env)
    outcome = run(image, tmp_path, job)
    stayed, came = outcome.lives[0, 0], outcome.lives[1, 1]
    assert [stayed.code, came.code] == [0, 0], stayed.errors + came.errors
    ends = [life.of("done")[0] for life in (stayed, came)]
    for end in ends:
        assert end["mib"] == 1024
        assert (end["losses"], end["counted"]) == (1, 2 * _STEPS)
    # Each began with others: that they are equal is the hand-over's work.
    assert ends[0]["weights"] == ends[1]["weights"]
    [joined] = came.of("world")
    assert joined["step"] >= _AFTER_STEP
    assert sum(end["peak_gib"] for end in ends) < _MOST_GIB
    with capsys.disabled():
        print(  # noqa: T201 - the figures are what it is run for
            f"\n1 GiB: steps of {[step['seconds'] for step in stayed.of('step')]} s, in the next "
            f"world after {joined['seconds']} s, at most {[end['peak_gib'] for end in ends]} GiB"
        )
