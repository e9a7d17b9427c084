"""Charts for a run: lines or bars for report.js, and a table of their numbers. Pure.

report.js draws them with plotly (https://plotly.com/javascript/reference/), which interprets markup
in text, so user-chosen names are escaped. The colors are Okabe and Ito's, which color-blind readers
can tell apart: https://jfly.uni-koeln.de/color/
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import isfinite
from pathlib import Path
from typing import Any, Literal

from core.manifests import read
from scripts.cli.runs.report_data import ALL, Curve, Series

_MOST_CHARTS = 24
_SPREAD = ("minimum over ranks", "median", "maximum over ranks")
FIGURES = read(Path(__file__).with_name("figures.yaml"))


@dataclass(frozen=True)
class Chart:
    """A chart that report.js draws, with a table of its numbers."""

    title: str
    kind: Literal["line", "spread", "bar", "event"]  # report.js has a style for each
    axes: tuple[str, str]  # the titles of x and y
    data: Sequence[Mapping[str, Any]]  # plotly traces: `name`, `x`, `y`, optionally `text`
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    choices: Sequence[str] = ()
    """Names of ranks that can be added to the chart one at a time: the last traces of `data`."""
    notes: Sequence[str] = ()


def charts(series: Series) -> Iterator[Chart]:
    """Yield a run's charts, starting with those for metrics that the demos report."""
    names = [*FIGURES["titles"], *sorted(series.curves.keys() - FIGURES["titles"].keys())]
    curves = [series.curves[name] for name in names if name in series.curves]
    notes = ["The beginning of very long logs was skipped."] if series.is_cut else []
    if (more := len(curves) - _MOST_CHARTS) > 0:
        notes.append(f"{more} more metrics are not charted.")
    for curve in curves[:_MOST_CHARTS]:
        yield _curve(curve, notes)
    if any(epoch.get("seconds_in") for epoch in series.epochs):
        yield _phases(series.epochs)


def timeline(entries: Sequence[Mapping[str, str]]) -> Chart:
    """Return a timeline of a run's events."""
    data = []
    for kind in dict.fromkeys(each["kind"] for each in entries):
        mine = [each for each in entries if each["kind"] == kind and each["time"]]
        texts = [escape(f"{each['about']}: {each['text']}"[:300]) for each in mine]
        times = [each["time"] for each in mine]
        data.append({"name": kind, "x": times, "y": [kind] * len(mine), "text": texts})
    columns = ("time (UTC)", "event", "subject", "message")
    rows = [(each["time"], each["kind"], each["about"], each["text"]) for each in entries]
    return Chart("Timeline", "event", ("time (UTC)", ""), data, columns, rows)


def _curve(curve: Curve, notes: Sequence[str]) -> Chart:
    places, title = curve.places, FIGURES["titles"].get(curve.name, curve.name)
    ranks = {rank: "all ranks" if rank == ALL else f"rank {rank}" for rank in sorted(curve.by_rank)}
    lines = {name: curve.by_rank[rank] for rank, name in ranks.items()}
    data = [_line(name, points, places) for name, points in lines.items()]
    if not all(isfinite(value) for points in lines.values() for value in points.values()):
        notes = [*notes, "Some values are not finite (NaN), so the lines have gaps."]
    axes, choices = (curve.axis, ""), [*lines]
    # For more than 8 ranks, the chart shows their spread, plus one rank of the reader's choice.
    if len(lines) <= 8:
        rows = _rows(places, lines)
        return Chart(title, "line", axes, data, [curve.axis, *lines], rows, notes=notes)
    values = zip(_SPREAD, zip(*map(curve.spread, places), strict=True), strict=True)
    spread = {name: dict(zip(places, each, strict=True)) for name, each in values}
    # plotly fills the area between a trace and the previous one.
    drawn = [_line(name, spread[name], places) for name in (*_SPREAD[::-2], _SPREAD[1])]
    columns, rows = [curve.axis, *spread], _rows(places, spread)
    return Chart(title, "spread", axes, [*drawn, *data], columns, rows, choices, notes)


def _line(name: str, points: Mapping[float, float], places: Sequence[float]) -> dict[str, Any]:
    x = [place for place in places if place in points]
    y = [points[place] for place in x]
    return {"name": name, "x": x, "y": y, "text": [""] * len(y[1:]) + [*map(number, y[-1:])]}


def _rows(places: Sequence[float], lines: Mapping[str, Mapping[float, float]]) -> list[list[str]]:
    return [[*map(number, (x, *(points.get(x) for points in lines.values())))] for x in places]


def _phases(epochs: Sequence[Mapping[str, Any]]) -> Chart:
    shown = [epoch for epoch in epochs if epoch.get("seconds_in")][-40:]
    names = [*dict.fromkeys(name for epoch in shown for name in epoch["seconds_in"])]
    x = [f"epoch {epoch['epoch']}" for epoch in shown]
    seconds = {name: [epoch["seconds_in"].get(name, 0.0) for epoch in shown] for name in names}
    data = [{"name": escape(name), "x": x, "y": seconds[name]} for name in names]
    rows = [
        [str(epoch["epoch"]), *(number(epoch["seconds_in"].get(name)) for name in names)]
        for epoch in shown
    ]
    notes = ["Mean over all ranks; backward includes waiting for other ranks' gradients."]
    if len(shown) < len(epochs):
        notes.append(f"Only the last {len(shown)} epochs are shown.")
    title, columns = "Phases of a step, by epoch", ["epoch", *names]
    return Chart(title, "bar", ("", "seconds"), data, columns, rows, notes=notes)


def number(value: float | None) -> str:
    """Return a number as a cell of a table."""
    return "-" if value is None else f"{value:.6g}"
