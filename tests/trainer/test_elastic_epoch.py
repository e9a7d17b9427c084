"""Each worker in turn is killed at 40 % of a whole epoch; prints what that cost."""

import signal
from pathlib import Path

import pytest

from tests.trainer.conftest import Opened
from tests.trainer.elastic_jobs import MNIST, Blow, Job, Outcome, run

_SAMPLES = 60000
_AT_40_PERCENT = int(0.4 * _SAMPLES / (3 * 64))
_PAUSE_SECONDS = 60
_POINT = 0.01


@pytest.fixture(scope="module")
def undisturbed(image: Opened, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Three workers that nothing happens to."""
    return run(image, tmp_path_factory.mktemp("undisturbed"), Job(MNIST))


@pytest.mark.long
@pytest.mark.parametrize("replace", [None, 3.0])
@pytest.mark.parametrize("worker", [0, 1, 2])
def test_a_killed_worker_costs_seconds_and_no_sample_and_no_accuracy(
    image: Opened,
    tmp_path: Path,
    undisturbed: Outcome,
    capsys: pytest.CaptureFixture[str],
    worker: int,
    replace: float | None,
) -> None:
    blow = Blow(worker, _AT_40_PERCENT, signal.SIGKILL, replace)
    outcome = run(image, tmp_path, Job(MNIST, [blow]))
    expected = undisturbed.lives[0, 0].message["accuracy"]
    assert len(outcome.completed) == (2 if replace is None else 3)
    for life in outcome.completed:
        assert life.message["total_samples_seen"] == _SAMPLES
        assert [ledger["counted_once"] for ledger in life.of("ledger")] in ([], [_SAMPLES])
        assert life.message["accuracy"] == pytest.approx(expected, abs=_POINT)
    next_step, pause = outcome.seconds_to_next_step(), outcome.longest_pause()
    assert max(next_step, pause) < _PAUSE_SECONDS
    with capsys.disabled():
        print(  # noqa: T201 - the figures are what it is run for
            f"\nworker {worker} killed, {'not replaced' if replace is None else 'replaced'}: next "
            f"step after {next_step:.2f} s, longest pause {pause:.2f} s, accuracy "
            f"{outcome.completed[0].message['accuracy']:.4f}, undisturbed {expected:.4f}"
        )
