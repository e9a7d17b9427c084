"""How far a run is, in one line, from what its ranks write, and which one the others wait for."""

import json
from typing import Any

import pytest

from jobs.observe.progress import Paces, Progress, duration
from jobs.observe.wait import _Row
from tests.unit.images.objects import Listener


def at(seconds: float) -> str:
    return f"2026-01-01T00:{int(seconds) // 60:02}:{seconds % 60:06.3f}+00:00"


def step(number: int, seconds: float, epoch: int = 1, **told: Any) -> str:
    event = {"event": "step", "epoch": epoch, "step": number, "time": at(seconds), **told}
    return json.dumps(event)


def started(epochs: object) -> str:
    return json.dumps({"event": "started", "epochs": epochs, "time": at(0)})


def epoch(number: object, seconds: float = 30, **told: Any) -> str:
    return json.dumps({"event": "epoch", "epoch": number, "time": at(seconds), **told})


def told(*lines: str, world_size: int = 2) -> str:
    progress = Progress(world_size)
    for line in lines:
        progress.see(line)
    return str(progress)


def logged(seconds: float, metrics: Any, **when: Any) -> str:
    return json.dumps({"event": "metrics", "time": at(seconds), "metrics": metrics, **when})


def events_with(value: Any) -> list[str]:
    return [started(value), step(value, 1, epoch=value, steps=value), epoch(value)]


PARTS = [
    logged(1, each, epoch=0) for each in ({"loss": 2}, {"loss": 1}, {"accuracy": 0.5}, {"f1": 1})
]
METRICS = {"f1": 0.5, "accuracy": 0.9, "loss": 0.4, "lr": 0.01, "a": 1, "b": 2}
RESUMED = json.dumps({"event": "resumed", "rank": 0, "step": 500})
BAR = "Validation: 100%|█████| 2/2 [00:00<00:00, 25.03it/s]\x1b[A"
REDRAWN = "\x1b[A\rEpoch 1:  40%|██  | 4/10\rEpoch 1:  50%|██▌ | 5/10"
# 50 of 200 steps take 5 s.
BEGUN = [started(2), step(0, 10, steps=100, samples=64, loss=2.3)]
WITHIN = step(50, 15, steps=100, samples=3264, loss=0.5)
ENDED = epoch(1, 20, loss=0.25, accuracy=0.97, samples_per_second=1234.5)
# Half of an epoch takes 5 s; one and four tenths are left.
LATER = [started(10), step(0, 10, epoch=9, steps=10), step(5, 15, epoch=9, steps=10)]


@pytest.mark.parametrize(
    ("lines", "shown"),
    [
        ([*BEGUN, WITHIN], "epoch 1/2 at 51%, loss 0.5000, 1,280 samples/s, about 15 s left"),
        (
            [*BEGUN, ENDED],
            "epoch 1/2, loss 0.2500, accuracy 0.9700, 2,469 samples/s, about 10 s left",
        ),
        (
            [ENDED, step(0, 21, epoch=2, loss=0.2)],
            "epoch 2, loss 0.2000, accuracy 0.9700 after epoch 1",
        ),
        ([started(1), step(0, 10, steps=2), epoch(1, 20, loss=0.1)], "epoch 1/1, loss 0.1000"),
        (LATER, "epoch 9/10 at 60%, about 14 s left"),
        # An event after a progress bar counts, and of such a bar what it shows last.
        ([started(2), BAR + epoch(1, 20, loss=0.25)], "epoch 1/2, loss 0.2500"),
        ([REDRAWN], "last line: Epoch 1:  50%|██▌ | 5/10"),
        # Nothing in a row moves the cursor.
        (["\x1b[1;31mred\x1b[0m\x07 alert\r", ""], "last line: red alert"),
        (["x" * 200], f"last line: {'x' * 79}…"),
        # Metrics of a custom program.
        (
            [logged(1, METRICS, epoch=1)],
            "epoch 1, loss 0.4000, accuracy 0.9000, f1 0.5, lr 0.01, a 1",
        ),
        ([logged(1, {"perplexity": 12.4}, step=3)], "last line: perplexity 12.4"),
        ([RESUMED], "resumed from step 500"),
        ([RESUMED, epoch(3, 20, loss=0.25)], "epoch 3, loss 0.2500, resumed from step 500"),
        # Numbers of one epoch that are reported one after another are shown together.
        (PARTS, "epoch 0, loss 1.0000, accuracy 0.5000, f1 1"),
        ([*PARTS, logged(2, {"loss": 0.5}, epoch=1)], "epoch 1, loss 0.5000"),
        ([*PARTS, logged(2, {"accuracy": 0.75}, epoch=1), *PARTS], "epoch 1, accuracy 0.7500"),
        # A log that is read again from its beginning changes nothing.
        ([*BEGUN, ENDED, epoch(2, 30, loss=0.2), *BEGUN, ENDED], "epoch 2/2, loss 0.2000"),
        # Events of a custom program may have any value.
        *(([logged(1, odd, epoch=1)], "epoch 1") for odd in (None, [1], {"a": "b"})),
        *(
            (["it begins", *events_with(odd)], "last line: it begins")
            for odd in (None, "1", 1.5, -1, True)
        ),
    ],
)
def test_a_row_shows_how_far_a_run_is(lines: list[str], shown: str) -> None:
    assert told(*lines) == shown


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (59.6, "1 min"), (86400, "24 h"), (185, "3 min 5 s"), (7500, "2 h 5 min")],
)
def test_a_duration_is_shown_in_its_two_largest_units(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_a_program_that_started_has_made_no_step() -> None:
    progress = Progress(1)
    progress.see(started(2))
    assert not progress.has_stepped
    progress.see(step(0, 1))
    assert progress.has_stepped


def test_news_is_shown_at_once_figures_every_15_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("jobs.observe.wait.time.monotonic", lambda: now)
    listener, progress = Listener(), Progress(1)
    row, shown = _Row(listener), listener.shown
    row.show("1 running", progress)
    steps = [step(0, 1, steps=9), step(1, 2, steps=9)]
    for line in ("loading", "loaded", *steps, epoch(1, 3), epoch(2, 4)):
        progress.see(line)
        row.show("1 running", progress)
    found = [each.partition("; ")[2] for each in shown]
    assert found == ["", "last line: loading", "epoch 1 at 11%", "epoch 1", "epoch 2"]
    for seconds in range(60):
        now = float(seconds)
        progress.see(step(seconds, seconds, epoch=3, steps=60))
        row.show("1 running", progress)
    found = [each.partition("; ")[2] for each in shown[5:]]
    assert found == ["epoch 3 at 27%", "epoch 3 at 52%", "epoch 3 at 77%"]


def pace(rank: int, data: float, compute: float, backward: float, rest: float = 0.0) -> str:
    parts = {"data": data, "compute": compute, "backward": backward, "rest": rest}
    seconds_in = {name: each for name, each in parts.items() if each}
    return json.dumps({"event": "pace", "rank": rank, "steps": 50, "seconds_in": seconds_in})


def paces_of(*lines: str, ranks: int = 3) -> Paces:
    paces = Paces(ranks)
    for line in lines:
        paces.see(line)
    return paces


FAST, SLOW = [pace(rank, 0.01, 0.09, 0.3) for rank in (0, 2)], pace(1, 0.2, 0.1, 0.1)


@pytest.mark.parametrize(
    ("lines", "ranks"),
    [
        ([*FAST, SLOW], 3),
        ([SLOW, *FAST], 3),
        ([pace(rank, data, 0, 0, 0.3 - data) for rank, data in enumerate((0.01, 0.2, 0.01))], 3),
        ([pace(0, 0.0, 0.1, 0.1), pace(1, 0.0, 0.16, 0.04)], 2),
    ],
    ids=["reports last", "reports first", "takes long for batches, on GPUs", "is one of two"],
)
def test_the_rank_that_the_others_wait_for_is_named(lines: list[str], ranks: int) -> None:
    """Each rank is judged once all of them have reported."""
    assert str(paces_of(*lines, ranks=ranks)) == "; slower than the others: rank 1"


@pytest.mark.parametrize(
    "lines",
    [
        [pace(0, 0.01, 0.1, 0.3), pace(1, 0.01, 0.14, 0.26), pace(2, 0.01, 0.1, 0.3)],
        # Three times as slow in what takes hardly any time.
        [pace(0, 0.001, 0.001, 0.3), pace(1, 0.005, 0.001, 0.3), pace(2, 0.001, 0.001, 0.3)],
        # One that has not reported yet may be as slow.
        [FAST[0], SLOW],
        # Lines that a program prints itself.
        ['{"event": "pace"}', '{"event": "pace", "rank": 1, "seconds_in": [1]}', "pace"],
    ],
)
def test_what_is_no_straggler_is_not_named(lines: list[str]) -> None:
    paces = paces_of(*lines)
    assert (str(paces), paces.slow) == ("", {})


def test_a_rank_that_keeps_up_again_leaves_the_row_and_stays_in_the_result() -> None:
    """With where its time goes."""
    paces = paces_of(*FAST, SLOW)
    before = {
        1: "3.0 times slower than the others, which wait 0.2 s in each step: "
        "data 0.2 s, compute 0.1 s, backward 0.1 s"
    }
    paces.see(pace(1, 0.0, 0.1, 0.3))
    assert (str(paces), paces.slow) == ("", before)
    paces.see(pace(1, 0.4, 0.1, 0.1))
    assert (paces.now, paces.slow) == ({1}, before), "one warning is enough"
