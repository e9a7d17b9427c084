"""A run's numbers are what its ranks reported, wherever they began and whatever else they print."""

import pytest

from jobs.records.archive import Run
from scripts.cli.runs import report_data
from scripts.cli.runs.charts import charts
from scripts.cli.runs.report_data import ALL, Curve, of_logs, of_record
from tests.unit.archived_run import event, line, made, rank_log


def curve(run: Run, name: str) -> dict[int, dict[float, float]]:
    return of_logs(run).curves[name].by_rank


def test_the_loss_of_each_rank_is_along_the_epochs() -> None:
    found = curve(made([rank_log(0), rank_log(1)]), "loss")
    assert [*found] == [0, 1]
    assert next(iter(found[0].items())) == pytest.approx((0.2, 2))
    assert max(found[1]) == 2


def test_the_throughput_within_an_epoch_is_by_the_steps() -> None:
    found = curve(made([rank_log(0)]), "samples_per_second")
    assert set(found[0].values()) == {64}
    assert len(found[0]) == 8  # of five steps four pairs, in two epochs


def test_what_all_ranks_find_alike_is_one_curve() -> None:
    found = curve(made([rank_log(0), rank_log(1)]), "accuracy")
    assert found == {ALL: {1: 0.91, 2: 0.92}}


def test_a_script_that_only_logs_has_its_numbers_by_epoch_or_step_or_in_their_order() -> None:
    log = "".join([
        line(0, "hello"),
        event(1, "metrics", 0, epoch=1, metrics={"val_loss": 0.5}),
        event(2, "metrics", 0, epoch=2, metrics={"val_loss": 0.25}),
        event(3, "metrics", 0, step=100, metrics={"drift": 1.0}),
        event(4, "metrics", 0, metrics={"seen": 7.0, "odd": "text"}),
    ])  # fmt: skip
    found = of_logs(made([log]))
    assert found.curves["val_loss"].by_rank == {0: {1: 0.5, 2: 0.25}}
    assert (found.curves["drift"].axis, found.curves["drift"].by_rank) == ("step", {0: {100: 1.0}})
    assert (found.curves["seen"].axis, found.curves["seen"].by_rank) == (
        "report number",
        {0: {4: 7.0}},
    )
    assert "odd" not in found.curves


def test_steps_that_were_made_again_after_a_restart_count_as_at_last() -> None:
    run = made([rank_log(0, epochs=1)])
    again = event(30, "step", 0, epoch=1, step=0, steps=5, samples=64, loss=9.0)
    run.log(0, "later").path.write_text(again)
    assert curve(run, "loss")[0][0.2] == 9


def test_events_that_lack_what_they_should_have_are_no_error() -> None:
    odd = event(0, "step", 0, epoch="x") + event(1, "step", 0, epoch=1, steps=0, loss="nan")
    odd += line(2, '{"event": "epoch"}') + line(3, '{"event": "metrics", "rank": 0, "metrics": 1}')
    assert of_logs(made([odd])).curves == {}


def test_many_points_are_thinned_and_the_ends_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_data, "_MOST", 50)
    many = Curve("loss", by_rank={0: {float(x): 1.0 for x in range(1000)}})
    assert len(many.places) == 50
    assert (many.places[0], many.places[-1]) == (0, 999)


def test_of_very_long_logs_the_end_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_data, "_MOST_BYTES", 0)
    monkeypatch.setattr(report_data, "_LEAST_BYTES", 800)
    found = of_logs(made([rank_log(0)]))
    assert min(found.curves["loss"].by_rank[0], default=2) > 1
    assert "skipped" in next(charts(found)).notes[0]


def test_without_logs_there_is_what_is_remembered() -> None:
    known = [{"epoch": 1, "accuracy": 0.9, "samples_per_second": 100.0}]
    found = of_record(known, {"val_loss": [0.5, 0.25]})
    assert found.curves["accuracy"].by_rank == {ALL: {1: 0.9}}
    assert found.curves["val_loss"].by_rank == {ALL: {1: 0.5, 2: 0.25}}


@pytest.mark.parametrize("axis", ["epoch", "step"])
def test_the_first_epoch_or_step_may_be_0(axis: str) -> None:
    events = (event(x, "metrics", 0, **{axis: x}, metrics={"loss": 3.0 - x}) for x in range(3))
    found = of_logs(made(["".join(events)])).curves["loss"]
    assert (found.axis, found.by_rank) == (axis, {0: {0: 3.0, 1: 2.0, 2: 1.0}})
