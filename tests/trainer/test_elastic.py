"""An elastic job outlives its workers: real processes on the real data, in the image."""

import hashlib
import signal
from pathlib import Path

import pytest

from tests.trainer.conftest import Ended, Opened
from tests.trainer.elastic_jobs import MNIST, Blow, Job, Outcome, run

_EPOCH, _SAMPLES = 60_000, 12_000
_DATA = ("--limit-train", str(_SAMPLES))
_BRIEF = ("--limit-test", "1000")  # where the accuracy is not the question
_AT_40_PERCENT = int(0.4 * _SAMPLES / (3 * 64))
_IN_THE_EPOCH = int(0.4 * _EPOCH / (3 * 64))
_PAUSE_SECONDS = 60
_WITNESS = ("/scripts/elastic_witness.py",)
_LOOPBACK = "[::1]" if Path("/proc/net/if_inet6").exists() else "127.0.0.1"


@pytest.fixture(scope="module")
def undisturbed(image: Opened, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Three workers that nothing happens to, on a whole epoch."""
    return run(image, tmp_path_factory.mktemp("undisturbed"), Job(MNIST))


def _is_right(life: Ended, samples: int = _SAMPLES) -> None:
    assert life.code == 0, life.errors
    assert life.message["total_samples_seen"] == samples
    for ledger in life.of("ledger"):
        assert (ledger["counted_once"], ledger["missing"], ledger["repeated"]) == (samples, 0, 0)
        assert ledger["sha256"] == hashlib.sha256(b"\x01" * samples).hexdigest()


@pytest.mark.long
def test_three_workers_share_an_epoch(undisturbed: Outcome) -> None:
    messages = [life.message for life in undisturbed.lives.values()]
    for number, life in enumerate(undisturbed.lives.values()):
        _is_right(life, _EPOCH)
        assert life.message["rank"] == number
        assert life.message["reformations"] == 0
        assert life.message["world_size"] == 3
    assert sum(message["samples_seen"] for message in messages) == _EPOCH
    assert len({message["accuracy"] for message in messages}) == 1
    assert messages[0]["accuracy"] > 0.97


@pytest.mark.parametrize(
    "blow",
    [
        *(
            Blow(worker, _IN_THE_EPOCH, replace=after)
            for worker in (0, 1, 2)
            for after in (None, 3)
        ),
        Blow(2, _IN_THE_EPOCH, signal.SIGTERM),
        Blow(0, _IN_THE_EPOCH, signal.SIGSTOP),
    ],
    ids=lambda blow: f"{signal.Signals(blow.signal).name}-{blow.worker}-{blow.replace}",
)
@pytest.mark.long
def test_a_lost_worker_costs_seconds_and_no_sample_and_no_accuracy(
    image: Opened,
    tmp_path: Path,
    undisturbed: Outcome,
    capsys: pytest.CaptureFixture[str],
    blow: Blow,
) -> None:
    """Each is lost at 40 % of a whole epoch; prints what that cost."""
    outcome = run(image, tmp_path, Job(MNIST, [blow]))
    assert len(outcome.completed) == (2 if blow.replace is None else 3)
    expected = undisturbed.lives[0, 0].message["accuracy"]
    for life in outcome.completed:
        _is_right(life, _EPOCH)
        assert life.message["reformations"] >= 1
        assert life.message["longest_pause_seconds"] < _PAUSE_SECONDS
        assert life.message["accuracy"] == pytest.approx(expected, abs=0.01)
    [zero] = [life for life in outcome.completed if life.message["rank"] == 0]
    assert zero.of("world")[-1]["world_rank"] == 0
    with capsys.disabled():
        print(  # noqa: T201 - the figures are what it is run for
            f"\n{blow}: longest pause {zero.message['longest_pause_seconds']:.2f} s, accuracy "
            f"{zero.message['accuracy']:.4f}, undisturbed {expected:.4f}"
        )


@pytest.mark.long
def test_all_of_them_lost_at_once_cost_at_most_one_interval(image: Opened, tmp_path: Path) -> None:
    blows = [Blow(worker, _AT_40_PERCENT, replace=0.5) for worker in range(3)]
    kept = {"SLIPWAY_CHECKPOINT_DIR": "/out/checkpoints", "SLIPWAY_CHECKPOINT_EVERY": "5 steps"}
    outcome = run(image, tmp_path, Job((*MNIST, *_DATA, *_BRIEF), blows, env=kept))
    before = [life for (_, number), life in outcome.lives.items() if number == 0]
    assert {life.code for life in before} == {-signal.SIGKILL}
    assert len(outcome.completed) == 3, outcome.lives
    made = max(step["step"] for life in before for step in life.of("step")) + 1
    for life in outcome.completed:
        _is_right(life)
        first = life.of("world")[0]
        assert (first["lost"], first["joined"]) == (0, 3)
        assert made - 2 * 5 <= first["step"] <= made, "what was being written counts as lost"
        assert life.message["reformations"] == 0
    assert outcome.lives[0, 1].message["accuracy"] > 0.9


@pytest.mark.long
def test_below_the_least_number_the_others_wait_for_a_replacement_and_not_for_ever(
    image: Opened, tmp_path: Path
) -> None:
    program = (*MNIST, *_DATA, *_BRIEF, "--timeout", "0.5")
    blows = [Blow(2, 10, replace=1), Blow(2, 45)]
    outcome = run(image, tmp_path, Job(program, blows, nodes="3:3"))
    for worker in (0, 1):
        life = outcome.lives[worker, 0]
        assert {world["world_size"] for world in life.of("world")} == {3}
        assert life.code == 1
        assert "a world of at least 3 workers" in life.message["error"]
        assert "2 (127.0.0.1:" in life.message["error"].partition("; not responding:")[2]


@pytest.mark.long
def test_workers_are_lost_no_more_often_than_allowed(image: Opened, tmp_path: Path) -> None:
    job = Job((*MNIST, *_DATA), [Blow(2, 10)], env={"PET_MAX_RESTARTS": "0"})
    outcome = run(image, tmp_path, job)
    for life in (outcome.lives[0, 0], outcome.lives[1, 0]):
        assert life.code == 1
        assert "lost 1 times, but PET_MAX_RESTARTS allows only 0" in life.message["error"]


@pytest.mark.long
def test_the_goal_stops_all_workers_in_the_same_step(image: Opened, tmp_path: Path) -> None:
    goal = ("--goal", "accuracy=0.8", "--validate-every", "10", "--limit-test", "1000")
    outcome = run(image, tmp_path, Job((*MNIST, *_DATA, *goal)))
    messages = [life.message for life in outcome.completed]
    assert len(messages) == 3
    assert {message["goal_reached"] for message in messages} == {True}
    assert len({message["total_samples_seen"] for message in messages}) == 1
    assert len({message["time_to_accuracy_seconds"] for message in messages}) == 1
    assert messages[0]["total_samples_seen"] < _SAMPLES
    for life in outcome.completed:
        [reached], last = life.of("goal_reached"), life.of("validation")[-1]
        took = life.message["time_to_accuracy_seconds"]
        assert took == reached["time_to_accuracy_seconds"] == last["elapsed_seconds"]


@pytest.mark.long
def test_a_replacement_has_the_epochs_and_validations_before_its_time(
    image: Opened, tmp_path: Path
) -> None:
    data = ("--limit-train", "6000", "--limit-test", "1000", "--epochs", "4")
    program = (*MNIST, *data, "--validate-every", "20", "--goal", "accuracy=1")
    outcome = run(image, tmp_path, Job(program, [Blow(1, 10, replace=0)]))
    came = outcome.lives[1, 1]
    assert len(outcome.completed) == 3, came.errors
    same = ("epoch_accuracies", "accuracy", "loss", "total_samples_seen", "goal_reached")
    for life in outcome.completed:
        assert [life.message[key] for key in same] == [came.message[key] for key in same]
    assert len(came.message["epoch_accuracies"]) == 4
    assert [epoch["epoch"] for epoch in came.of("epoch")] == [1, 2, 3, 4]
    assert came.message["total_samples_seen"] == 4 * 6000
    stayed = outcome.lives[0, 0].of("validation")
    assert [each["accuracy"] for each in came.of("validation")] == [
        each["accuracy"] for each in stayed
    ]


def _witness(image: Opened, directory: Path, job: Job) -> Outcome:
    """Return how it went, once each completed worker's model says that it had all samples once."""
    outcome = run(image, directory, job)
    assert outcome.completed, outcome.lives
    for life in outcome.completed:
        [done] = life.of("done")
        # The scaler left out one step, whose samples the ledger counts and the model lacks.
        counts = {int(times): samples for times, samples in done["counts"].items()}
        assert counts.keys() == {0, 1}, counts
        assert counts[0] in {8, 16, 24}
        assert [audit["counted_once"] for audit in done["audits"]] == [3000]
        assert (done["scheduled"], done["averaged"]) == (done["steps"], done["steps"])
        assert done["skipped"] == 1
    assert len({str(life.of("done")[0]) for life in outcome.completed}) == 1
    return outcome


@pytest.mark.parametrize("replace", [pytest.param(None, marks=pytest.mark.long), 0.0])
def test_the_model_itself_has_each_sample_once_and_what_travels_with_it_stays_equal(
    image: Opened, tmp_path: Path, replace: float | None
) -> None:
    """Clipping, a scaler, a scheduler and an average of the weights are in the program."""
    job = Job(_WITNESS, [Blow(1, 40, replace=replace)])
    outcome = _witness(image, tmp_path, job)
    assert len(outcome.completed) == (2 if replace is None else 3)
    # All clip by the norm of the same gradients: those of all workers.
    norms: dict[int, set[float]] = {}
    for life in outcome.lives.values():
        for step in life.of("step"):
            norms.setdefault(step["step"], set()).add(round(step["norm"], 6))
    assert {step for step, seen in norms.items() if len(seen) > 1} == set()


def test_one_of_three_is_enough_and_a_mistake_on_one_worker_ends_that_one(
    image: Opened, tmp_path: Path
) -> None:
    """In a script of one's own, and over IPv6."""
    fails = {"FAIL_AT": "1:60"}
    outcome = _witness(image, tmp_path, Job(_WITNESS, [Blow(0, 30)], host=_LOOPBACK, env=fails))
    broken = outcome.lives[1, 0]
    assert broken.code == 1
    assert broken.errors.rstrip().endswith("ValueError: a mistake of this script")
    [end] = [life.of("done")[0] for life in outcome.completed]
    assert end["size"] == 1
    assert end["losses"] >= 2


@pytest.mark.long
def test_after_a_split_all_go_on_from_the_larger_part_and_not_from_the_furthest(
    image: Opened, tmp_path: Path
) -> None:
    job = Job(_WITNESS, env={"SPLIT": "2:20:80"})
    outcome = _witness(image, tmp_path, job)
    assert len(outcome.completed) == 3
    lone = outcome.lives[2, 0]
    [alone], last = lone.of("alone"), lone.of("world")[-1]
    assert last["size"] == 3
    assert last["world_step"] < alone["steps"]


@pytest.mark.long
def test_a_replacement_gets_a_model_of_1_gib(image: Opened, tmp_path: Path) -> None:
    """Its weights are equal on both workers, within 12 GiB of memory."""
    job = Job(("/scripts/elastic_large.py",), [Blow(1, 2, replace=0)], workers=2, nodes="2:2")
    outcome = run(image, tmp_path, job)
    stayed, came = outcome.lives[0, 0], outcome.lives[1, 1]
    assert [stayed.code, came.code] == [0, 0], stayed.errors + came.errors
    ends = [life.of("done")[0] for life in (stayed, came)]
    for end in ends:
        assert (end["mib"], end["losses"], end["counted"]) == (1024, 1, 2 * 6)
    # Each began with others: that they are equal is the hand-over's work.
    assert ends[0]["weights"] == ends[1]["weights"]
    [joined] = came.of("world")
    assert joined["step"] >= 2
    assert sum(end["peak_gib"] for end in ends) < 12
