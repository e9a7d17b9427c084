"""Events reach a sink once, in their order, whatever it does meanwhile; what is lost is known."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from slipway_trainer.agent.tracking import sender as module
from slipway_trainer.agent.tracking.figures import Point
from slipway_trainer.agent.tracking.sender import Sender
from slipway_trainer.agent.tracking.sinks import Dataset, RefusedError, Run


class Kept:
    """A sink that keeps what it gets, and that fails once for each of the errors given."""

    def __init__(self, **fails: Sequence[Exception]) -> None:
        self.fails = {call: list(errors) for call, errors in fails.items()}
        self.points, self.files = list[Point](), dict[str, bytes]()
        self.params, self.tags = dict[str, str](), dict[str, str]()
        self.data: Dataset | None = None
        self.ended: bool | None = None

    def _perhaps(self, call: str) -> None:
        if errors := self.fails.get(call):
            raise errors.pop(0)

    def open(self) -> str:
        self._perhaps("open")
        return "http://here/#/1"

    def describe(
        self, params: Mapping[str, str], tags: Mapping[str, str], dataset: Dataset | None
    ) -> None:
        self._perhaps("describe")
        self.params |= params
        self.tags |= tags
        self.data = self.data or dataset

    def metrics(self, points: Sequence[Point]) -> None:
        self._perhaps("metrics")
        self.points += points

    def artifact(self, path: Path, name: str) -> None:
        self._perhaps("artifact")
        self.files[name] = path.read_bytes()

    def close(self, *, is_success: bool, ends_run: bool) -> None:
        self._perhaps("close")
        self.ended = is_success if ends_run else None


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_LOOK_SECONDS", "_LONGEST_PAUSE", "_PAUSE_AT_END"):
        monkeypatch.setattr(module, name, 0.01)


Started = Callable[..., tuple[Sender, Kept]]


@pytest.fixture
def started(tmp_path: Path) -> Started:
    (tmp_path / "outputs").mkdir()
    (tmp_path / "events.jsonl").touch()

    def make(sink: Kept, rank: int = 0, **facts: object) -> tuple[Sender, Kept]:
        run = Run("run-1", "dev/mine", rank, facts=facts, outputs=tmp_path / "outputs")
        return Sender(run, sink, tmp_path / "events.jsonl"), sink

    return make


def emit(sender: Sender, *steps: int, **values: object) -> None:
    frame = {"event": "metrics", "rank": 0, "time": "2026-11-25T10:00:00.250+00:00"}
    with sender.spool.open("a") as file:
        for step in steps:
            file.write(json.dumps({**frame, "step": step, "metrics": {"a": step}, **values}) + "\n")


def work(sender: Sender, code: int = 0, **message: object) -> None:
    sender.conclude(code, message)
    sender.work()


def test_all_arrives_in_its_order_though_the_server_does_not_answer_for_a_while(
    started: Started,
) -> None:
    away = [ConnectionError("away")] * 3
    failing = Kept(open=away, metrics=away, artifact=away, close=away, describe=away)
    sender, sink = started(failing, settings={"workers": 1})
    (sender.run.outputs / "model.pt").write_bytes(b"w")
    emit(sender, *range(450))
    assert sender.lost() == "the run, 450 events", "what was not sent when time is up is counted"
    work(sender, metrics={"final": 1})
    assert sink.params == {"job.workers": "1"}
    assert [point.step for point in sink.points] == [*range(450), 449]
    assert sink.points[-1].name == "final"
    assert sink.files == {"model.pt": b"w"}
    assert (sink.ended, sink.tags["state"], sender.lost()) == (True, "Succeeded", None)
    assert sender.spool.with_suffix(".address").read_text() == "http://here/#/1"


def test_what_a_server_refuses_is_counted_and_the_rest_goes_on(started: Started) -> None:
    refused = {"metrics": [RefusedError("400 name")], "describe": [RefusedError("400 too long")]}
    sender, sink = started(Kept(**refused))
    emit(sender, *range(250))
    with sender.spool.open("a") as file:
        file.write('{"event": "metr')
    work(sender, 3)
    assert [point.step for point in sink.points] == list(range(200, 250))
    assert sender.lost() == "201 events, parameters", "a line that was cut as well"
    assert sender.why == "400 name"
    assert (sink.ended, sink.tags["state"]) == (False, "Failed")


def test_events_that_had_no_room_are_told_of(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender, _ = started(Kept())
    emit(sender, 1)
    work(sender)
    monkeypatch.setattr(module, "SPOOL_BYTES", sender.spool.stat().st_size)
    assert sender.lost() == "later events, for want of room"


def test_large_files_stay_refused_count(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST_FILE", 10)
    files = {"small": b"1", "trace/b": b"22"}
    for sink, lost in ((Kept(), None), (Kept(artifact=[RefusedError("no")]), "2 files")):
        sender, _ = started(sink)
        (sender.run.outputs / "trace").mkdir(exist_ok=True)
        for name, content in {**files, "large": b"3" * 11}.items():
            (sender.run.outputs / name).write_bytes(content)
        work(sender)
        assert (sink.files, sender.lost()) == ({} if lost else files, lost)


def test_other_pods_send_their_metrics_alone_and_who_ends_as_rank_0_ends_the_run(
    started: Started,
) -> None:
    """The latter of an elastic job."""
    sender, sink = started(Kept(), rank=1, settings={"workers": 1})
    (sender.run.outputs / "model.pt").write_bytes(b"w")
    emit(sender, 7)
    work(sender, metrics={"final": 1})
    assert [point.name for point in sink.points] == ["a"]
    assert (sink.params, sink.tags, sink.files, sink.ended) == ({}, {}, {}, None)
    sender, sink = started(Kept(), rank=2)
    work(sender, rank=0)
    assert (sink.files, sink.ended) == ({"model.pt": b"w"}, True)


@pytest.mark.parametrize("is_declared", [False, True])
def test_the_declared_data_set_counts(started: Started, tmp_path: Path, is_declared: bool) -> None:
    directory, url = tmp_path / "mnist", "https://example.org/digits.tar?x=1"
    directory.mkdir()
    (directory / "images").write_bytes(b"abc")
    facts = {"data": {"url": url, "sha256": "f" * 64}} if is_declared else {}
    sender, sink = started(Kept(), **facts, settings={"epochs": 2}, revision="abc")
    emit(sender, 0, event="started", data=str(directory), torch="2.6", lr=0.01)
    work(sender)
    # printf '%s  images\n' $(printf abc | sha256sum | cut -d' ' -f1) | sha256sum
    digest = "99984db37a3c04f2e883e7146be34e1c78831813bd6598bf5d93e5fbe8b0ee8c"
    used, declared = ("mnist", digest, str(directory)), ("digits.tar", "f" * 64, url)
    assert sink.data == Dataset(*(declared if is_declared else used))
    assert sink.params.items() >= {"job.epochs": "2", "lr": "0.01"}.items()
    assert sink.tags.items() >= {"revision": "abc", "torch": "2.6", "run_id": "run-1"}.items()
