"""What a run returns: the real operator, real pods."""

from tests.engine.job_programs import python
from tests.engine.pytorchjob_stack import Jobs
from tests.runs.runner import Runs

_EPOCHS = range(1, 1001)
_MANY_EPOCHS = """
import slipway
for epoch in range(1, 1001):
    slipway.log(epoch=epoch, val_loss=1 / epoch, accuracy=1 - 1 / epoch)
slipway.finish(perplexity=12.4)
"""


def test_a_program_that_ends_at_once_runs_on_every_rank(
    job_name: str, runs: Runs, trainer: str
) -> None:
    """Its Master has ended, and its name leads nowhere, before the Workers have found it."""
    runs.train(job_name, image=trainer, command=["echo", "hello"], workers=2, cpu="100m")
    assert runs.output(job_name)["exit_codes"] == {"0": 0, "1": 0, "2": 0}


def test_numbers_that_a_termination_message_cannot_hold_arrive_whole_and_are_judged(
    job_name: str, runs: Runs, jobs: Jobs, trainer: str
) -> None:
    """A result that 4 KB can't hold arrives whole."""
    bounds = {"val_loss": {"max": 0.01}, "perplexity": {"max": 13}}
    attempt = runs.train(job_name, **python(trainer, _MANY_EPOCHS, workers=0, require=bounds))
    result = runs.output(job_name)
    (pod,) = jobs.items("pods", job_name)
    (status,) = pod["status"]["containerStatuses"]
    assert '"cut": ["epoch_metrics"]' in status["state"]["terminated"]["message"]
    assert result["epoch_metrics"]["val_loss"] == [1 / epoch for epoch in _EPOCHS]
    assert result["epoch_accuracies"] == [1 - 1 / epoch for epoch in _EPOCHS]
    assert result["metrics"] == {"val_loss": 0.001, "perplexity": 12.4}
    assert result["accuracy"] == 0.999
    assert "lacks part of" not in attempt.text
