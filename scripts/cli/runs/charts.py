"""Charts as plotly draws them, each with the table of its numbers. Pure.

https://plotly.com/javascript/reference/ has the figures' fields. Plotly reads markup in its texts,
so whatever a user named is escaped.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import isfinite
from typing import Any

from scripts.cli.runs.report_data import ALL, Curve, Series

_EACH = 8
"""So many ranks have a line each; of more, their spread is drawn and one of them by choice."""
_BARS = 40
_MOST_CHARTS = 24
_FEW = 60  # points that each have a mark, without which a single one could not be seen
# Colors that can be told apart by the color-blind: Okabe and Ito, https://jfly.uni-koeln.de/color/.
# Without any colors the dashes and marks can be told apart.
_COLORS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#b2a300",
)  # fmt: skip
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "5px,2px", "2px,6px")
_MARKS = ("circle", "square", "diamond", "cross", "x", "triangle-up", "star", "hexagon")
_PATTERNS = ("", "/", "x", "-", "|", "+", ".", "\\")
_SPREAD = ("least of all ranks", "median", "greatest of all ranks")
_TITLES = {
    "loss": "Loss of each rank",
    "accuracy": "Accuracy",
    "top5_accuracy": "Top-5 accuracy",
    "test_loss": "Loss on the test set",
    "samples_per_second": "Samples per second of each rank",
}
"""What the demos report, in the order of their charts; figures of other names follow."""


@dataclass(frozen=True)
class Chart:
    """A figure of plotly, and its numbers.

    Args:
        choices: The ranks of which one may be drawn besides, in the order of the last traces.
    """

    title: str
    figure: Mapping[str, Any]
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    choices: Sequence[str] = ()
    notes: Sequence[str] = ()

    @property
    def hidden_from(self) -> int:
        """The number of the first trace that is a choice."""
        return len(self.figure["data"]) - len(self.choices)


def charts(series: Series) -> Iterator[Chart]:
    """Yield the charts of a run, those that every demo has first."""
    names = [*_TITLES, *sorted(series.curves.keys() - _TITLES.keys())]
    known = [series.curves[name] for name in names if name in series.curves]
    notes = ["The beginning of very long logs was not read."] if series.is_cut else []
    if (more := len(known) - _MOST_CHARTS) > 0:
        notes.append(f"{more} more figures have no chart.")
    for curve in known[:_MOST_CHARTS]:
        yield _curve(curve, notes)
    if any(epoch.get("seconds_in") for epoch in series.epochs):
        yield _phases(series.epochs)


def timeline(entries: Sequence[Mapping[str, str]]) -> Chart:
    """Return when what happened to a run."""
    kinds = list(dict.fromkeys(each["kind"] for each in entries))
    data = []
    for number, kind in enumerate(kinds):
        mine = [each for each in entries if each["kind"] == kind and each["time"]]
        data.append({
            "type": "scatter", "mode": "markers", "name": kind, "y": [kind] * len(mine),
            "x": [each["time"] for each in mine],
            "text": [escape(f"{each['about']}: {each['text']}"[:300]) for each in mine],
            "hovertemplate": "%{x}<br>%{text}<extra></extra>",
            "marker": {"size": 11, **_mark(number)},
        })  # fmt: skip
    layout = _layout("time (UTC)", "", height=120 + 36 * len(kinds), showlegend=False)
    layout["yaxis"] |= {"autorange": "reversed"}
    columns = ("time (UTC)", "what", "of", "message")
    rows = [(each["time"], each["kind"], each["about"], each["text"]) for each in entries]
    return Chart("Timeline", {"data": data, "layout": layout}, columns, rows)


def label(rank: int) -> str:
    """Name a rank, or all of them."""
    return "all ranks" if rank == ALL else f"rank {rank}"


def _curve(curve: Curve, notes: Sequence[str]) -> Chart:
    ranks, places = sorted(curve.by_rank), curve.places
    choices: list[str] = []
    if len(ranks) <= _EACH:
        names = [*map(label, ranks)]
        values = [[curve.by_rank[rank].get(x) for rank in ranks] for x in places]
        data = [_of_rank(curve, rank, places, number) for number, rank in enumerate(ranks)]
    else:
        names, choices = [*_SPREAD], [label(rank) for rank in ranks]
        spread = [curve.spread(x) for x in places]
        values = [[*each] for each in spread]
        least, middle, greatest = (
            _line(name, places, [each[index] for each in spread], 0)
            for index, name in enumerate(_SPREAD)
        )
        border = {"mode": "lines", "line": {"width": 1, "color": _COLORS[0], "dash": "dot"}}
        area = {"fill": "tonexty", "fillcolor": "rgba(0,114,178,0.2)"}
        # The area is between a trace and the one before it.
        data = [greatest | border, least | border | area]
        data += [middle | {"line": {"width": 3, "color": _COLORS[0]}}]
        data += [_of_rank(curve, rank, places, 1) | {"visible": False} for rank in ranks]
    rows = [[_number(x), *map(_number, each)] for x, each in zip(places, values, strict=True)]
    layout = _layout(curve.axis, escape(curve.name), showlegend=len(data) > 1)
    every = (value for points in curve.by_rank.values() for value in points.values())
    if not all(map(isfinite, every)):
        notes = [*notes, "Some values are no finite numbers (NaN): the lines have gaps there."]
    figure, title = {"data": data, "layout": layout}, _TITLES.get(curve.name, curve.name)
    return Chart(title, figure, [curve.axis, *names], rows, choices, notes)


def _of_rank(curve: Curve, rank: int, places: Sequence[float], number: int) -> dict[str, Any]:
    points = curve.by_rank[rank]
    xs = [x for x in places if x in points]
    return _line(label(rank), xs, [points[x] for x in xs], number)


def _line(name: str, x: Sequence[float], y: Sequence[float], number: int) -> dict[str, Any]:
    dash = _DASHES[number % len(_DASHES)]
    return {
        "type": "scatter", "name": name, "x": x, "y": y, "mode": _mode(len(x)),
        "text": [*map(_number, y[:1])], "textposition": "top center",
        "line": {"width": 2, "color": _COLORS[number % len(_COLORS)], "dash": dash},
        "marker": {"size": 7, **_mark(number)},
    }  # fmt: skip


def _phases(epochs: Sequence[Mapping[str, Any]]) -> Chart:
    shown = [epoch for epoch in epochs if epoch.get("seconds_in")][-_BARS:]
    names = list(dict.fromkeys(name for epoch in shown for name in epoch["seconds_in"]))
    data = []
    for number, name in enumerate(names):
        pattern = {"shape": _PATTERNS[number % len(_PATTERNS)], "solidity": 0.3}
        data.append({
            "type": "bar", "name": escape(name),
            "x": [f"epoch {epoch['epoch']}" for epoch in shown],
            "y": [epoch["seconds_in"].get(name, 0.0) for epoch in shown],
            "marker": {"color": _COLORS[number % len(_COLORS)], "pattern": pattern},
        })  # fmt: skip
    layout = {**_layout("", "seconds", showlegend=True), "barmode": "stack"}
    rows = [
        [str(epoch["epoch"]), *(_number(epoch["seconds_in"].get(name)) for name in names)]
        for epoch in shown
    ]
    notes = ["The mean of the ranks; backward includes the wait for other ranks' gradients."]
    if len(shown) < len(epochs):
        notes.append(f"The last {len(shown)} epochs.")
    figure = {"data": data, "layout": layout}
    return Chart("Phases of a step, by epoch", figure, ["epoch", *names], rows, notes=notes)


def _mode(points: int) -> str:
    if points == 1:
        return "markers+text"  # Alone, its axis does not show how much it is.
    return "lines+markers" if points <= _FEW else "lines"


def _mark(number: int) -> dict[str, str]:
    return {"symbol": _MARKS[number % len(_MARKS)], "color": _COLORS[number % len(_COLORS)]}


def _layout(x: str, y: str, *, height: int = 340, showlegend: bool) -> dict[str, Any]:
    return {
        "height": height,
        "margin": {"l": 56, "r": 12, "t": 12, "b": 48},
        "showlegend": showlegend,
        "legend": {"orientation": "h", "y": -0.25},
        "xaxis": {"title": {"text": x}},
        "yaxis": {"title": {"text": y}, "automargin": True},
    }


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
