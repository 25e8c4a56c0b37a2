// Draws the counts that the page has as a table. Colours are those of the figures above it, so both schemes fit.

const NAMES = ["admitted", "429 full", "503 not evaluated", "429 throttled"];
const TONES = ["done", "waiting", "rejected", "conflict"];
const HEIGHT = 260;
const DAY_SECONDS = 86_400;
let plot = null;

function read() {
  const points = document.getElementById("points")?.dataset.points;
  if (!points) return null;
  const rows = points.split(";").map((row) => row.split(",").map(Number));
  return rows[0].map((_, column) => rows.map((row) => row[column]));
}

function colour(tone, name) {
  const probe = document.createElement("span");
  probe.dataset.tone = tone;
  probe.className = "state";
  document.body.append(probe);
  const found = getComputedStyle(probe)[name];
  probe.remove();
  return found;
}

function moment(second, withDay) {
  const at = new Date(second * 1000);
  const time = at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false });
  return withDay ? `${at.toLocaleDateString([], { day: "numeric", month: "short" })} ${time}` : time;
}

function draw() {
  const place = document.getElementById("chart");
  const data = read();
  if (!place || !data || !window.uPlot) return;
  place.hidden = false;
  plot?.destroy();
  // What never happened has no line: a red one along the bottom would look like trouble.
  const wanted = [1, 2, 3, 4].filter((column) => data[column].some(Boolean));
  const ink = getComputedStyle(place).color;
  const line = getComputedStyle(place).borderTopColor;
  const isLong = data[0].at(-1) - data[0][0] > DAY_SECONDS;
  const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
  const series = wanted.map((column) => ({
    label: NAMES[column - 1],
    stroke: colour(TONES[column - 1], "color"),
    fill: column === 1 ? colour(TONES[0], "backgroundColor") : undefined,
    width: 2,
    dash: column === 2 ? [6, 4] : column === 4 ? [2, 3] : undefined,
    points: { show: data[0].length < 2 },
  }));
  const highest = Math.max(1, ...wanted.flatMap((column) => data[column]));
  plot = new window.uPlot({
    width: place.clientWidth,
    height: HEIGHT,
    series: [{ label: "from", value: (_, second) => (second == null ? "-" : moment(second, true)) }, ...series],
    axes: [{ ...axis, space: isLong ? 110 : 60, values: (_, seconds) => seconds.map((second) => moment(second, isLong)) }, { ...axis, size: 48 }],
    scales: { y: { range: [0, highest * 1.1] } },
    cursor: { drag: { x: false, y: false } },
  }, [data[0], ...wanted.map((column) => data[column])], place);
}

draw();
document.addEventListener("interlock:morphed", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
new ResizeObserver(() => { const place = document.getElementById("chart"); if (plot && place) plot.setSize({ width: place.clientWidth, height: HEIGHT }); }).observe(document.querySelector("main"));
