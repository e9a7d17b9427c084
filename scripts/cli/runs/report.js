"use strict";

const dark = matchMedia("(prefers-color-scheme: dark)").matches;
const [ink, grid] = dark ? ["#dddddd", "#555555"] : ["#222222", "#cccccc"];

// Colors that color-blind readers can tell apart: Okabe and Ito (charts.py).
// Without color, lines can be told apart by their dashes and markers.
const colors = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#b2a300"];
const dashes = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "5px,2px", "2px,6px"];
const marks = ["circle", "square", "diamond", "cross", "x", "triangle-up", "star", "hexagon"];
const patterns = ["", "/", "x", "-", "|", "+", ".", "\\"];
const few = 60; // up to this many points, each has a marker; without one, a single point would be invisible

const pick = (list, number) => list[number % list.length];
const mark = (number) => ({ symbol: pick(marks, number), color: pick(colors, number) });

function line({ x }, number) {
  return {
    type: "scatter",
    // For a single point, the axis does not show the value.
    mode: x.length === 1 ? "markers+text" : x.length <= few ? "lines+markers" : "lines",
    textposition: "top center",
    line: { width: 2, color: pick(colors, number), dash: pick(dashes, number) },
    marker: { size: 7, ...mark(number) },
  };
}

// The style of a chart's traces: by the chart's kind, for a trace and its number.
const looks = {
  line,
  spread(trace, number) {
    const [color] = colors;
    const border = { ...line(trace, 0), mode: "lines", line: { width: 1, color, dash: "dot" } };
    return [
      border,
      { ...border, fill: "tonexty", fillcolor: "rgba(0,114,178,0.2)" },
      { ...line(trace, 0), line: { width: 3, color } },
    ][number] ?? { ...line(trace, 1), visible: false };
  },
  bar(_, number) {
    const pattern = { shape: pick(patterns, number), solidity: 0.3 };
    return { type: "bar", marker: { color: pick(colors, number), pattern } };
  },
  event(_, number) {
    const hovertemplate = "%{x}<br>%{text}<extra></extra>";
    return { type: "scatter", mode: "markers", hovertemplate, marker: { size: 11, ...mark(number) } };
  },
};

function draw(place) {
  const { kind, axes, data } = JSON.parse(place.querySelector("script").textContent);
  data.forEach((trace, number) => Object.assign(trace, looks[kind](trace, number)));
  const [xaxis, yaxis] = axes.map((text) => ({
    title: { text }, gridcolor: grid, linecolor: ink, zerolinecolor: grid, fixedrange: true,
  }));
  const isEvent = kind === "event";
  const layout = {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: ink, size: 13 },
    height: isEvent ? 120 + 36 * data.length : 340,
    margin: { l: 56, r: 12, t: 12, b: 48 },
    showlegend: kind === "bar" || (data.length > 1 && !isEvent),
    legend: { orientation: "h", y: -0.25 },
    barmode: "stack",
    xaxis,
    yaxis: { ...yaxis, automargin: true, autorange: isEvent ? "reversed" : true },
  };
  const drawing = place.querySelector(".drawing");
  Plotly.newPlot(drawing, data, layout, { responsive: true, displayModeBar: false });
  const select = place.querySelector("select");
  if (select) {
    const from = Number(select.dataset.from);
    const every = data.slice(from).map((_, index) => from + index);
    select.addEventListener("change", () => {
      Plotly.restyle(drawing, { visible: false }, every);
      if (select.value !== "") {
        Plotly.restyle(drawing, { visible: true }, [from + Number(select.value)]);
      }
    });
  }
}

function filter(select) {
  const log = document.getElementById(select.dataset.log);
  const left = document.getElementById(`${select.dataset.log}-count`);
  select.addEventListener("change", () => {
    const rank = select.value === "" ? null : Number(select.value);
    let shown = 0;
    for (const line of log.children) {
      const [first, last = first] = line.dataset.ranks.split("-").map(Number);
      line.hidden = rank !== null && (rank < first || rank > last);
      shown += line.hidden ? 0 : 1;
    }
    left.textContent = `${shown} lines`;
  });
}

document.querySelectorAll(".chart").forEach(draw);
document.querySelectorAll("select[data-log]").forEach(filter);
