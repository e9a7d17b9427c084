"""The page of `make report`, as a browser shows it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts.cli.runs.report import page
from tests.browser.chromium import Tab, opened
from tests.unit.archived_run import event, line, made, rank_log
from tests.unit.scripts.cli.runs import made_page

_DRAWN = "document.querySelectorAll('.drawing .main-svg').length > 0"
_TRACES = """[...document.querySelectorAll('figure')].map(figure => [
  figure.querySelector('h3, h4').textContent,
  figure.querySelector('.drawing').data.map(each => [each.name, each.visible !== false, each.y]),
])"""
_RANGES = """[...document.querySelectorAll('.charts figure')].map(figure => [
  figure.querySelector('h4').textContent, figure.querySelector('.drawing')._fullLayout.yaxis.range,
])"""
_VISIBLE = """[...document.querySelectorAll('.log > div')]
  .filter(each => each.offsetParent).map(each => each.dataset.ranks)"""
_WIDTHS = "[document.documentElement.scrollWidth, window.innerWidth]"


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    """The page that all tests use, since Chromium takes seconds to start."""
    with opened() as tab:
        yield tab


def show(tab: Tab, directory: Path, html: str, width: int = 1280) -> dict[str, list[Any]]:
    """Open a page; return each chart's traces by its title: name, visible, values."""
    file = directory / "report.html"
    file.write_text(html, encoding="utf-8")
    tab.errors.clear()
    tab.requests.clear()
    tab.page.set_viewport_size({"width": width, "height": 900})
    tab.page.goto(file.as_uri())
    tab.page.wait_for_function(_DRAWN)
    assert tab.errors == []
    assert tab.requests == [file.as_uri()]
    return dict(tab.page.evaluate(_TRACES))


def test_the_charts_have_the_numbers_of_the_run_and_lines_are_chosen_by_keyboard(
    tab: Tab, tmp_path: Path
) -> None:
    """The report loads nothing, and a browser finds no error in it."""
    found = show(tab, tmp_path, made_page.usual())
    loss = {name: values for name, _, values in found["Loss of each rank"]}
    assert loss["rank 0"][:3] == pytest.approx([2, 1, 2 / 3])
    assert loss["rank 1"][:2] == pytest.approx([2.01, 1.01])
    assert found["Accuracy"] == [["all ranks", True, [0.91, 0.92]]]
    phases = {name: values for name, _, values in found["Phases of a step, by epoch"]}
    assert phases["backward"] == [2.5, 2.5]
    # The same numbers without looking at colors or lines.
    summary = tab.page.locator("figure", has_text="Loss of each rank").locator("summary")
    summary.press("Enter")
    assert tab.page.get_by_role("cell", name="0.666667").is_visible()
    every = len(tab.page.evaluate(_VISIBLE))
    select = tab.page.get_by_label("Lines from")
    select.focus()
    for key in ("ArrowDown", "ArrowDown"):
        select.press(key)
    assert tab.page.evaluate(_VISIBLE) == ["1"] * (every // 2)
    assert tab.page.locator("output").text_content() == f"{every // 2} lines"
    select.press("Home")
    assert len(tab.page.evaluate(_VISIBLE)) == every


@pytest.mark.parametrize("width", [390, 1280])
def test_no_page_is_wider_than_its_window(tab: Tab, width: int, tmp_path: Path) -> None:
    wide = "w" * 400
    made([rank_log(0) + line(8, wide), rank_log(1)], timeline=made_page.HAPPENED)
    failed = {"state": "Failed", "reason": wide, "run_id": made_page.RUN, "image": wide}
    show(tab, tmp_path, page("dev", [made_page.job(failed, gate=False)]), width)
    inner = tab.page.evaluate(_WIDTHS)
    assert inner[0] <= inner[1] == width


def test_what_a_program_prints_does_no_harm(tab: Tab, tmp_path: Path) -> None:
    harm = "</script><script>document.title='harmed'</script><img src=x onerror=\"alert('harm')\">"
    log = rank_log(0) + line(9, harm) + event(9, "metrics", 0, epoch=1, metrics={harm: 0.5})
    made([log, rank_log(1)], timeline=[made_page.entry(1, "warning", harm, harm)])
    result = {**made_page.SUCCEEDED, "reason": harm, "metrics": {harm: 1.0}, "dataset": harm}
    found = show(tab, tmp_path, page("dev", [made_page.job(result)]))
    assert tab.page.title() == "dev: training report"
    assert harm in found
    assert tab.page.locator(".log > div", has_text="onerror").first.is_visible()
    assert tab.page.locator("img").count() == 0


def test_one_point_has_a_mark_and_ratios_an_axis_from_0_to_1_with_their_last_value(
    tab: Tab, tmp_path: Path
) -> None:
    percent = event(8, "metrics", 0, epoch=1, metrics={"val_acc": 97.5, "val_f1": 0.5})
    made([rank_log(0, epochs=1, steps=1) + percent])
    found = show(tab, tmp_path, page("dev", [made_page.job()]), width=390)
    assert found["Loss of each rank"] == [["rank 0", True, [2]]]
    figure = tab.page.locator("figure", has_text="Loss of each rank")
    assert figure.locator(".scatterlayer .point").count() == 1
    ranges = dict(tab.page.evaluate(_RANGES))
    assert ranges["Accuracy"] == ranges["val_f1"] == [0, 1]
    assert ranges["val_acc"][1] > 97.5
    assert ranges["Loss of each rank"][1] > 1
    accuracy = tab.page.locator("figure", has_text="Accuracy").first
    assert accuracy.locator(".textpoint").text_content() == "0.91"


def test_a_loss_that_is_no_number_is_a_gap_and_a_note(tab: Tab, tmp_path: Path) -> None:
    lost = event(9, "step", 0, epoch=2, step=0, steps=3, samples=64, loss=float("nan"))
    made([rank_log(0, epochs=1, steps=3) + lost, rank_log(1, epochs=1, steps=3)])
    found = show(tab, tmp_path, page("dev", [made_page.job()]))
    assert found["Loss of each rank"][0] == ["rank 0", True, [2, 1, 2 / 3, None]]
    assert tab.page.get_by_text("so the lines have gaps").is_visible()


def test_of_a_hundred_ranks_the_spread_is_drawn_and_one_by_choice(tab: Tab, tmp_path: Path) -> None:
    made([rank_log(rank) for rank in range(100)])
    found = show(tab, tmp_path, page("dev", [made_page.job()]), width=390)
    drawn = [name for name, visible, _ in found["Loss of each rank"] if visible]
    assert drawn == ["maximum over ranks", "minimum over ranks", "median"]
    greatest, least, _ = (values for *_, values in found["Loss of each rank"][:3])
    assert (greatest[0], least[0]) == pytest.approx((2.99, 2))
    figure = tab.page.locator("figure", has_text="Loss of each rank")
    figure.locator("select").select_option("rank 42")
    visible = [each for each in dict(tab.page.evaluate(_TRACES))["Loss of each rank"] if each[1]]
    assert visible[-1][0] == "rank 42"
    assert visible[-1][2][0] == pytest.approx(2.42)
    assert tab.errors == []
