"""A rank reports what its steps cost it itself, apart from the wait for others."""

from types import SimpleNamespace
from typing import Any

import pytest

from slipway.events import Events
from slipway.pace import STEPS, Pace


class Training:
    """A training whose steps take 0.5 s: 0.1 to fetch a batch, 0.2 forward, 0.2 backward."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, on_gpu: bool = False) -> None:
        self.now, self.reported = 0.0, list[dict[str, Any]]()
        batches = type("Batches", (), {"__next__": lambda _: self.passes(0.1)})
        self.batches = batches()
        monkeypatch.setattr(Pace, "_clock", lambda _: self.now)
        monkeypatch.setattr(Events, "emit", lambda _, name, **values: self._take(name, values))
        self.pace = Pace(Events(3), SimpleNamespace(_BaseDataLoaderIter=batches), on_gpu)

    def _take(self, name: str, values: dict[str, Any]) -> None:
        assert name == "pace"
        self.reported.append(values)

    def passes(self, seconds: float) -> None:
        self.now += seconds

    def step(self, *, odd: float = 0.0) -> None:
        next(self.batches)
        self.passes(0.2 + odd)
        # A pass that computes something again has another one in it.
        self.pace.backward(lambda: self.pace.backward(lambda: self.passes(0.2)))
        self.pace.step()


def test_the_middle_of_fifty_steps_has_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    training = Training(monkeypatch)
    for number in range(STEPS):
        training.step(odd=60 if number == 7 else 0)  # an evaluation, or a checkpoint
    (report,) = training.reported
    assert report["steps"] == STEPS
    assert report["seconds_in"] == pytest.approx({"data": 0.1, "compute": 0.2, "backward": 0.2})


def test_on_a_gpu_only_what_the_host_waits_for_is_known_and_quick_steps_fill_no_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    training = Training(monkeypatch, on_gpu=True)
    for _ in range(STEPS):
        training.step()
    assert training.reported[0]["seconds_in"] == pytest.approx({"data": 0.1, "rest": 0.4})
    training = Training(monkeypatch)
    for _ in range(4000):
        training.pace.backward(lambda: training.passes(0.01))
        training.pace.step()
    assert len(training.reported) == 2, "40 s have passed"
