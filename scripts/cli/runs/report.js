"use strict";

const dark = matchMedia("(prefers-color-scheme: dark)").matches;
const [ink, grid] = dark ? ["#dddddd", "#555555"] : ["#222222", "#cccccc"];

// Colors that color-blind readers can tell apart: Okabe and Ito (charts.py).
// Without color, lines can be told apart by their dashes and markers.
const colors = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#b2a300"];
const dashes = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "5px,2px", "2px,6px"];
const marks = ["circle", "square", "diamond", "cross", "x", "triangle-up", "star", "hexagon"];
const patterns = ["", "/", "x", "-", "|", "+", ".", "\\"];
// Titles of metrics between 0 and 1, unless a value is outside: some accuracies are in percent.
const ratios = /acc|auc|f1|goodput|iou|precision|recall/i;
const few = 60; // up to this number, points have markers, without which a single one is invisible

const pick = (list, number) => list[number % list.length];
const mark = (number) => ({ symbol: pick(marks, number), color: pick(colors, number) });

function line({ x }, number) {
  return {
    type: "scatter",
    mode: x.length <= few ? "lines+markers" : "lines",
    textposition: "middle right",
    cliponaxis: false, // do not cut off markers and text at the end of an axis
    line: { width: 2, color: pick(colors, number), dash: pick(dashes, number) },
    marker: { size: 7, ...mark(number) },
  };
}

// Functions that return the style for a trace and its number, by the chart's kind.
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
  const drawing = place.querySelector(".drawing");
  const { kind, axes, data } = JSON.parse(place.querySelector("script").textContent);
  data.forEach((trace, number) => Object.assign(trace, looks[kind](trace, number)));
  const [xaxis, yaxis] = axes.map((text) => ({
    title: { text }, gridcolor: grid, linecolor: ink, zerolinecolor: grid, fixedrange: true,
  }));
  const isEvent = kind === "event";
  const isAlone = kind === "line" && data.length === 1; // its last value is shown beside it
  if (isAlone) data[0].mode += "+text";
  const places = data.flatMap(({ x }) => x);
  const values = data.flatMap(({ y }) => y);
  const isRatio = ratios.test(place.querySelector("h3, h4").textContent) && values.every((y) => y >= 0 && y <= 1);
  const isCounted = Math.max(...places) <= 10 && places.every(Number.isInteger);
  const layout = {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: ink, size: 13 },
    height: isEvent ? 120 + 36 * data.length : 340,
    margin: { l: 48, r: isAlone ? 64 : 12, t: 12, b: 48 },
    showlegend: kind === "bar" || (data.length > 1 && !isEvent),
    legend: { orientation: "h", y: 1, yanchor: "bottom" },
    barmode: "stack",
    xaxis: {
      ...xaxis, automargin: true, tickangle: 0, rangemode: Math.min(...places) <= 1 ? "tozero" : "normal",
      ...(isCounted && { dtick: 1 }), ...(isEvent && { nticks: Math.ceil(drawing.clientWidth / 160) }),
    },
    yaxis: {
      ...yaxis, automargin: true, rangemode: new Set(values).size === 1 ? "tozero" : "normal",
      ...(isRatio ? { range: [0, 1] } : { autorange: isEvent ? "reversed" : true }),
    },
  };
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
