"""The report has a job's latest run, whether it ended, goes on, or has lost its logs."""

import re
from html import unescape

import pytest
import yaml

from jobs.config import CATALOG, declare
from jobs.model.job import declaration
from jobs.model.pytorchjob import Topology
from jobs.records import archive
from scripts.cli.runs import report_data
from scripts.cli.runs.charts import charts
from scripts.cli.runs.report import declared_yaml, page, section
from scripts.cli.runs.report_data import Curve, Series
from scripts.cli.runs.results import Outcome
from tests.unit.archived_run import COMMIT, at, line, made, rank_log, remembered
from tests.unit.scripts.cli.runs import made_page
from tests.unit.scripts.cli.runs.made_page import RUN, SUCCEEDED, job

LATER = "mine-20260109-000000-ffff"


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


@pytest.mark.parametrize("name", CATALOG)
def test_the_settings_of_a_demo_declare_the_same_job(name: str) -> None:
    demo = CATALOG[name]
    again = yaml.safe_load(declared_yaml(name, declaration(demo), None))["config"]["slipway:jobs"]
    assert declare(name, again[name], f"slipway:jobs.{name}") == demo


def test_changes_that_were_not_committed_are_mentioned() -> None:
    remembered(RUN, SUCCEEDED, revision=f"{COMMIT}-dirty")
    assert job()["command"].startswith(f"git checkout {COMMIT}  # plus the uncommitted changes")


def test_figures_have_words_and_units_and_the_table_of_all_is_folded_below_the_charts() -> None:
    text = made_page.usual()
    shown = dict(re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", text))
    assert shown == {
        "accuracy": "0.92", "loss": "0.25", "perplexity": "12.5", "ranks": "2", "duration": "20 s",
    }  # fmt: skip
    table = text.partition("<h3>Result</h3>")[2].partition("</details>")[0]
    assert table.startswith("\n<details><summary>")
    rows = dict(re.findall("<tr><td>(.*?)</td><td>(.*?)</td></tr>", table))
    assert rows == {**shown, "exit code of rank 0": "0", "exit code of rank 1": "0"}
    places = [text.index(each) for each in ("<strong>Succeeded", "<dl>", ">Training<", ">Result<")]
    assert places == sorted(places)
    assert '<td class="name">duration (s)</td>' in text


def test_long_times_and_yes_or_no_are_in_words_and_figures_with_a_limit_come_first() -> None:
    many = {f"m{number}": number / 2 for number in range(9)}
    result = {**SUCCEEDED, "duration_seconds": 5400, "goal_reached": True, "metrics": many}
    outcome = Outcome("mine", "Succeeded", made_page.ended(result), gated={"m8": 4.0})
    found = section("dev", made_page.state(result), outcome)
    assert found["figures"]["duration_seconds"] == "1 h 30 min"
    assert found["figures"]["goal_reached"] == "yes"
    own = [name for name in found["headline"] if name.startswith("metrics")]
    assert own == ["metrics m0", "metrics m1", "metrics m2", "metrics m8"]


def test_a_run_that_failed_has_its_story_and_no_gate() -> None:
    """It has runs that failed, that go on, and whose logs have gone, and what repeats each."""
    made([rank_log(0)])
    reason = "rank 0 (mine-master-0) exited with code 3"
    failed = {"state": "Failed", "reason": reason, "run_id": RUN, "failure": {"error": "bad shape"}}
    found = job(failed, gate=False)
    assert (found["outcome"].state, found["outcome"].gate) == ("Failed", "")
    assert "its error: bad shape" in found["story"]
    assert "its error: bad shape" in page("dev", [found])


def test_a_run_that_goes_on_has_its_numbers_so_far_and_not_the_result_before_it() -> None:
    made([rank_log(0)], run_id=LATER)
    remembered(RUN, SUCCEEDED)
    remembered(LATER, None)
    found = job()
    shown = (found["outcome"].state, found["outcome"].gate, found["run_id"], found["figures"])
    assert shown == ("running or interrupted", "", LATER, {})
    assert found["charts"][0].title == "Loss of each rank"
    page("dev", [found])


def test_when_the_logs_have_gone_the_epochs_are_left() -> None:
    made([rank_log(0)])
    remembered(RUN, SUCCEEDED)
    archive.of_job("dev", "mine").remove()
    found = job()
    accuracy = next(each for each in found["charts"] if each.title == "Accuracy")
    assert [row[1] for row in accuracy.rows] == ["0.91", "0.92"]
    assert "There are no logs on this machine" in page("dev", [found])


def test_a_job_of_which_nothing_is_known_has_a_page_all_the_same() -> None:
    found = job(None, gate=False)
    assert "The run reported no metrics." in page("dev", [found])


def test_lines_of_several_processes_in_a_pod_are_of_the_rank_that_they_name() -> None:
    log = line(1, "[rank1]: Traceback") + line(2, "downloading") + rank_log(1)
    run = made([log], topology=Topology(1, processes=2))
    shown = report_data.newest_lines([run], Topology(1, processes=2))
    spans = {each.text[:12]: each.ranks for each in shown}
    assert spans["[rank1]: Tra"] == "1"
    assert spans["downloading"] == "0-1"
    assert {span for text, span in spans.items() if text.startswith("{")} == {"1"}


def test_the_newest_lines_of_each_rank_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_data, "_MOST_LINES", 0)
    monkeypatch.setattr(report_data, "_FEWEST_LINES", 2)
    run = made([line(1, "a") + line(2, "b") + line(5, "c"), line(3, "d")])
    found = report_data.newest_lines([run], Topology(2))
    assert [each.text for each in found] == ["b", "d", "c"]


def test_a_figure_that_is_named_like_markup_is_shown_as_its_name() -> None:
    harm = '<a href="https://example.org">x</a>'
    series = Series(curves={harm: Curve(harm, by_rank={0: {1: 1.0}})})
    [chart] = charts(series)
    assert "<a" not in str((chart.axes, chart.data))
    made([rank_log(0)])
    assert harm not in page("dev", [job({**SUCCEEDED, "metrics": {harm: 1.0}})])


def test_more_figures_than_charts_are_counted() -> None:
    many = {f"m{number}": Curve("m", by_rank={0: {1: 1.0}}) for number in range(30)}
    found = [*charts(Series(curves=many))]
    assert len(found) == 24
    assert found[-1].notes == ["6 more metrics are not charted."]
