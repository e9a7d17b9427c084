"""`make report` writes one private page, which has a job's latest run whatever became of it."""

import re
import stat
from html import unescape
from pathlib import Path

import pytest
import yaml

from jobs.config import CATALOG, declare
from jobs.model.job import declaration
from jobs.model.pytorchjob import Topology
from jobs.records import archive
from scripts.cli.runs import report, report_data
from scripts.cli.runs.charts import charts
from scripts.cli.runs.report import declared_yaml, page, section
from scripts.cli.runs.report_data import ALL, Curve, Series, of_logs
from scripts.cli.runs.results import Outcome
from scripts.cli.state import StackState
from scripts.cli.terminal import CommandError
from scripts.setup import bootstrap
from tests.unit.archived_run import COMMIT, at, event, line, made, rank_log, remembered
from tests.unit.scripts.cli.runs import made_page
from tests.unit.scripts.cli.runs.made_page import RUN, SUCCEEDED, job


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stack `dev` whose job `mine` has run."""
    made([rank_log(0)])
    state = StackState(jobs={"mine": made_page.state(SUCCEEDED)})
    monkeypatch.setattr(report, "read_state", lambda *_, **__: state)
    monkeypatch.setattr(report, "load_settings", lambda _: None)
    monkeypatch.setattr(bootstrap, "add_extra", lambda *_: tmp_path)


@pytest.mark.usefixtures("stack")
def test_the_file_is_for_its_owner_alone_or_is_named_with_the_next_step(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    assert report.report("dev", "", str(file)) == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "Loss of each rank" in file.read_text()
    assert "default-src 'none'" in file.read_text()
    with pytest.raises(CommandError, match=r"/nowhere/page.html can't be written.*TO=…"):
        report.report("dev", "mine", "/nowhere/page.html")


@pytest.mark.usefixtures("stack")
def test_without_a_run_the_next_step_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandError, match=r"There is no job .mien.\. Did you mean mine\?"):
        report.read("dev", "mien")
    monkeypatch.setattr(report, "read_state", lambda *_, **__: StackState())
    with pytest.raises(CommandError, match="no runs yet; `make up STACK=dev`"):
        report.read("dev")


LATER = "its-new-name-20260109-000000-ffff"


def test_every_run_is_named_with_what_trained_it_newest_first() -> None:
    table = made_page.usual().partition("<h3>Recorded runs</h3>")[2].partition("</table>")[0]
    rows = [re.findall("<td.*?>(.*?)</td>", row) for row in table.split("<tr>")[2:]]
    assert [row[0] for row in rows] == [RUN, made_page.EARLIER]
    settings = '{"name": "mine", "script": "train.py", "epochs": 2, "workers": 1}'
    assert [unescape(cell) for cell in rows[0][1:]] == [
        at(0), "Succeeded", "0.9200", "20 s", COMMIT[:12], "example.org/mine:1", "", settings,
    ]  # fmt: skip


def test_it_ends_with_what_repeats_the_run() -> None:
    made_page.usual()
    found = job()
    mine = {"script": "train.py", "epochs": 2, "workers": 1, "minAccuracy": 0.9}
    assert yaml.safe_load(found["settings"]) == {"config": {"slipway:jobs": {"mine": mine}}}
    assert found["command"] == f"git checkout {COMMIT}\nmake rerun JOB=mine STACK=dev"
    remembered(LATER, SUCCEEDED, revision=f"{COMMIT}-dirty")
    uncommitted = f"git checkout {COMMIT}  # plus the uncommitted changes"
    assert job({**SUCCEEDED, "run_id": LATER})["command"].startswith(uncommitted)


@pytest.mark.parametrize("name", CATALOG)
def test_the_settings_of_a_demo_declare_the_same_job(name: str) -> None:
    demo = CATALOG[name]
    again = yaml.safe_load(declared_yaml(name, declaration(demo), None))["config"]["slipway:jobs"]
    assert declare(name, again[name], f"slipway:jobs.{name}") == demo


def test_figures_have_words_and_units_and_the_table_of_all_is_folded_below_the_charts() -> None:
    text = made_page.usual()
    shown = dict(re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", text))
    headline = {"accuracy": "0.92", "loss": "0.25", "perplexity": "12.5", "ranks": "2"}
    assert shown == {**headline, "duration": "20 s"}
    table = text.partition("<h3>Result</h3>")[2].partition("</details>")[0]
    assert table.startswith("\n<details><summary>")
    rows = dict(re.findall("<tr><td>(.*?)</td><td>(.*?)</td></tr>", table))
    assert rows == {**shown, "exit code of rank 0": "0", "exit code of rank 1": "0"}
    places = [text.index(each) for each in ("<strong>Succeeded", "<dl>", ">Training<", ">Result<")]
    assert places == sorted(places)


def test_long_times_and_yes_or_no_are_in_words_and_figures_with_a_limit_come_first() -> None:
    many = {f"m{number}": number / 2 for number in range(9)}
    result = {**SUCCEEDED, "duration_seconds": 5400, "goal_reached": True, "metrics": many}
    outcome = Outcome("mine", "Succeeded", made_page.ended(result), gated=["m8"])
    found = section("dev", made_page.state(result), outcome)
    assert found["figures"]["duration_seconds"] == "1 h 30 min"
    assert found["figures"]["goal_reached"] == "yes"
    own = [name for name in found["headline"] if name.startswith("metrics")]
    assert own == ["metrics m0", "metrics m1", "metrics m2", "metrics m8"]


def test_a_run_that_failed_has_its_story_and_no_gate() -> None:
    made([rank_log(0)])
    reason = "rank 0 (mine-master-0) exited with code 3"
    failed = {"state": "Failed", "reason": reason, "run_id": RUN, "failure": {"error": "bad shape"}}
    found = job(failed, gate=False)
    assert (found["outcome"].state, found["outcome"].gate) == ("Failed", "")
    assert "its error: bad shape" in page("dev", [found])
    refused = job({"state": "CannotStart", "reason": "refused: no"}, gate=False)
    assert [refused[each] for each in ("run_id", "charts", "lines")] == ["", [], []]
    assert "script: train.py" in refused["settings"], "those of now, not of the run before"


def test_a_run_that_goes_on_has_its_numbers_so_far_and_not_the_result_before_it() -> None:
    made([rank_log(0)], run_id=LATER)
    remembered(RUN, SUCCEEDED)
    remembered(LATER, None)
    found = job()
    shown = (found["outcome"].state, found["outcome"].gate, found["run_id"], found["figures"])
    assert shown == ("running or interrupted", "", LATER, {})
    assert found["charts"][0].title == "Loss of each rank"
    page("dev", [found])


def test_when_the_logs_have_gone_the_epochs_are_left_and_without_any_there_is_a_page() -> None:
    assert "The run reported no metrics." in page("dev", [job(None, gate=False)])
    made([rank_log(0)])
    remembered(RUN, SUCCEEDED)
    archive.of_job("dev", "mine").remove()
    found = job({**SUCCEEDED, "epoch_metrics": {"val_loss": [0.5, 0.25]}})
    columns = {each.title: [row[1] for row in each.rows] for each in found["charts"]}
    assert columns.items() >= {"Accuracy": ["0.91", "0.92"], "val_loss": ["0.5", "0.25"]}.items()
    assert "There are no logs on this machine" in page("dev", [found])


def test_lines_of_several_processes_in_a_pod_are_of_the_rank_that_they_name() -> None:
    log = line(1, "[rank1]: Traceback") + line(2, "downloading") + rank_log(1)
    run = made([log], topology=Topology(1, processes=2))
    shown = report_data.newest_lines([run], Topology(1, processes=2))
    spans = {each.text[:12]: each.ranks for each in shown}
    assert spans["[rank1]: Tra"] == "1"
    assert spans["downloading"] == "0-1"
    assert {span for text, span in spans.items() if text.startswith("{")} == {"1"}


def test_each_rank_has_a_curve_along_the_epochs_and_what_all_find_alike_is_one() -> None:
    found = of_logs(made([rank_log(0), rank_log(1)])).curves
    loss, throughput = found["loss"].by_rank, found["samples_per_second"].by_rank[0]
    assert [*loss] == [0, 1]
    assert next(iter(loss[0].items())) == pytest.approx((0.2, 2))
    assert max(loss[1]) == 2
    assert [*throughput.values()] == [64] * 8, "of five steps four pairs, in two epochs"
    assert found["accuracy"].by_rank == {ALL: {1: 0.91, 2: 0.92}}


def test_a_script_that_only_logs_has_its_numbers_by_epoch_or_step_or_in_their_order() -> None:
    log = "".join([
        line(0, "hello"),
        event(1, "metrics", 0, epoch=0, metrics={"val_loss": 0.5}),
        event(2, "metrics", 0, epoch=1, metrics={"val_loss": 0.25}),
        event(3, "metrics", 0, step=100, metrics={"drift": 1.0}),
        event(4, "metrics", 0, metrics={"seen": 7.0, "odd": "text"}),
    ])  # fmt: skip
    found = of_logs(made([log]))
    assert found.curves["val_loss"].by_rank == {0: {0: 0.5, 1: 0.25}}
    assert (found.curves["drift"].axis, found.curves["drift"].by_rank) == ("step", {0: {100: 1.0}})
    seen = found.curves["seen"]
    assert (seen.axis, seen.by_rank) == ("report number", {0: {4: 7.0}})
    assert "odd" not in found.curves


def test_steps_that_were_made_again_after_a_restart_count_as_at_last() -> None:
    run = made([rank_log(0, epochs=1)])
    again = event(30, "step", 0, epoch=1, step=0, steps=5, samples=64, loss=9.0)
    run.log(0, "later").path.write_text(again)
    assert of_logs(run).curves["loss"].by_rank[0][0.2] == 9


def test_of_very_long_logs_the_end_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_data, "_MOST_BYTES", 0)
    monkeypatch.setattr(report_data, "_LEAST_BYTES", 800)
    found = of_logs(made([rank_log(0)]))
    assert min(found.curves["loss"].by_rank[0], default=2) > 1
    assert "skipped" in next(charts(found)).notes[0]


def test_events_that_lack_what_they_should_have_are_no_error() -> None:
    odd = event(0, "step", 0, epoch="x") + event(1, "step", 0, epoch=1, steps=0, loss="nan")
    odd += line(2, '{"event": "epoch"}') + line(3, '{"event": "metrics", "rank": 0, "metrics": 1}')
    assert of_logs(made([odd])).curves == {}


def test_more_figures_than_charts_are_counted_and_many_points_are_thinned() -> None:
    many = {f"m{number}": Curve("m", by_rank={0: {1: 1.0}}) for number in range(30)}
    found = [*charts(Series(curves=many))]
    assert len(found) == 24
    assert found[-1].notes == ["6 more metrics are not charted."]
    places = Curve("loss", by_rank={0: {float(x): 1.0 for x in range(100_000)}}).places
    assert (places[0], places[-1], len(places)) == (0, 99_999, report_data._MOST)
