"""`make report` writes one file for its owner alone, or says why it can't."""

import stat
from pathlib import Path

import pytest

from scripts.cli.runs import report
from scripts.cli.state import StackState
from scripts.cli.terminal import CommandError
from scripts.setup import bootstrap
from tests.unit.archived_run import made, rank_log
from tests.unit.scripts.cli.runs import made_page
from tests.unit.scripts.cli.runs.made_page import SUCCEEDED


@pytest.fixture(autouse=True)
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stack `dev` whose job `mine` has run."""
    made([rank_log(0)])
    state = StackState(jobs={"mine": made_page.state(SUCCEEDED)})
    monkeypatch.setattr(report, "read_state", lambda *_, **__: state)
    monkeypatch.setattr(report, "locks", lambda _: [])
    monkeypatch.setattr(report, "load_settings", lambda _: None)
    monkeypatch.setattr(bootstrap, "add_extra", lambda *_: tmp_path)


def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    assert report.report("dev", "", str(file)) == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "Loss of each rank" in file.read_text()


def test_a_file_that_cannot_be_written_is_named_with_the_next_step() -> None:
    with pytest.raises(CommandError, match=r"/nowhere/page.html can't be written.*TO=…"):
        report.report("dev", "mine", "/nowhere/page.html")


def test_an_unknown_job_is_named_with_those_that_there_are() -> None:
    with pytest.raises(CommandError, match=r"There is no job .mien.\. Did you mean mine\?"):
        report.read("dev", "mien")


def test_a_stack_without_runs_says_what_makes_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "read_state", lambda *_, **__: StackState())
    with pytest.raises(CommandError, match="no runs yet; `make up STACK=dev`"):
        report.read("dev")


def test_nothing_of_the_page_is_loaded_from_an_address() -> None:
    text = report.page("dev", [made_page.job()])
    before, after = text.split("/**\n* plotly.js", 1)
    own = before + after[after.index("</script>") :]
    assert "http:" not in own
    assert "https:" not in own
    assert "default-src 'none'" in own
