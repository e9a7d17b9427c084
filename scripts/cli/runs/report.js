"use strict";

const dark = matchMedia("(prefers-color-scheme: dark)").matches;
const [ink, grid] = dark ? ["#dddddd", "#555555"] : ["#222222", "#cccccc"];

function draw(place) {
  const figure = JSON.parse(place.querySelector("script").textContent);
  const { layout, data } = figure;
  Object.assign(layout, { paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)" });
  layout.font = { color: ink, size: 13 };
  for (const axis of [layout.xaxis, layout.yaxis]) {
    Object.assign(axis, { gridcolor: grid, linecolor: ink, zerolinecolor: grid, fixedrange: true });
  }
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
