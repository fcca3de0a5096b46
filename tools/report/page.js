// Draws the charts of the page with dygraphs. Names of runs and phases become text only, never HTML.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const graphs = [];  // {graph, chart, values, box}
const COLORS = 8;

// Of its plugins these two suffice. The others would set styles that the page's policy forbids.
Dygraph.PLUGINS = [Dygraph.Plugins.Grid, Dygraph.Plugins.Axes];

const element = (name, className, text) => {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text) made.textContent = text;
  return made;
};

const color = i => getComputedStyle(document.documentElement).getPropertyValue("--series-" + i % COLORS).trim();

const formatted = value => {
  if (value === null || !Number.isFinite(value)) return "not finite";
  if (Math.abs(value) >= 1e4 && Math.abs(value) < 1e12) return Math.round(value).toLocaleString("en");
  return value !== 0 && Math.abs(value) < 1e-3 ? value.toExponential(3) : String(Number(value.toPrecision(5)));
};

// Labels of an axis have as many digits as tell them apart.
const onAxis = (value, granularity, options, graph) => {
  const size = Math.abs(value), [low, high] = graph.yAxisRange(0);
  const unit = [[1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([least]) => size >= least);
  const digits = Math.min(Math.max(3, Math.ceil(Math.log10(20 * size / (high - low)))), 12) || 3;
  if (size >= 1e12 || (size > 0 && size < 1e-3)) return Number(value.toPrecision(digits)).toExponential();
  return unit ? Number((value / unit[0]).toPrecision(digits)) + unit[1] : String(Number(value.toPrecision(digits)));
};

// Draws a bucket as a bar from its lowest to its highest value, or as a dot if these are equal. It is never too small to be seen.
function drawBand({drawingContext, points, plotArea, color}) {
  const width = Math.max(1.5, points.length > 1 ? points[1].canvasx - points[0].canvasx : 0), dot = 2;
  drawingContext.save();
  drawingContext.fillStyle = color;
  drawingContext.globalAlpha = .45;
  drawingContext.beginPath();  // one shape, so that bars that overlap are not darker
  for (const point of points) {
    const ends = [point.y_top, point.y_bottom].map(y => plotArea.y + plotArea.h * y), top = Math.min(...ends), height = Math.max(...ends) - top;
    if (height >= dot) drawingContext.rect(point.canvasx - width / 2, top, width, height);
    else if (height >= 0) drawingContext.rect(point.canvasx - dot / 2, top + (height - dot) / 2, dot, dot);
  }
  drawingContext.fill();
  drawingContext.restore();
}

// A bucket of steps is one number if all of them are equal, otherwise [lowest, mean, highest].
const mean = value => Array.isArray(value) ? value[1] : value;
const lowest = value => Array.isArray(value) ? value[0] : value;
const highest = value => Array.isArray(value) ? value[2] : value;

// Returns what dygraphs draws. The line of a column is the mean of up to `points` points around each; bars stay as they are.
function smoothedRows(chart, points) {
  const columns = names(chart).map((_, i) => {
    const found = chart.rows.map((row, at) => [at, mean(row[i + 1])]).filter(([, value]) => value !== null);
    const line = new Array(chart.rows.length).fill(null);
    found.forEach(([at], n) => {
      const near = found.slice(Math.max(n - (points >> 1), 0), n + ((points + 1) >> 1));
      // Rounded, so that the means of equal values are equal.
      line[at] = Number((near.reduce((sum, [, value]) => sum + value, 0) / near.length).toPrecision(9));
    });
    return line;
  });
  return chart.rows.map((row, at) => [row[0], ...columns.map((line, i) => {
    const value = row[i + 1];
    return value === null ? null : chart.stack ? line[at] : [lowest(value), line[at], highest(value)];
  })]);
}
const names = chart => chart.stack || chart.runs.map(i => data.runs[i]);
const colors = chart => names(chart).map((_, i) => color(chart.stack ? i : chart.runs[i]));
const steps = (x, chart) => data.width === 1 || chart.points ? "step " + x : "steps " + x + " to " + Math.min(x + data.width - 1, data.last);

const meaning = value => value === undefined || value === null ? "" : !Array.isArray(value) ? formatted(value)
  : formatted(value[1]) + " (" + formatted(value[0]) + " to " + formatted(value[2]) + ")";

// Shows the values of a row; without one, the last value of each run or phase.
function showValues({chart, values}, row) {
  const unit = chart.unit === "ms" || chart.unit === "GiB" ? " " + chart.unit : "";
  const items = names(chart).map((name, i) => {
    const at = row === undefined ? chart.rows.findLast(each => each[i + 1] !== null) : chart.rows[row];
    const item = element("li"), swatch = element("span", "swatch"), text = meaning(at[i + 1]);
    swatch.style.background = colors(chart)[i];
    item.append(swatch, (chart.stack || data.runs.length > 1 ? name + " " : "") + (text && text + unit));
    return item;
  });
  values.replaceChildren(element("li", "", row === undefined ? "last" : steps(chart.rows[row][0], chart)), ...items);
}

const first = document.getElementById("first"), last = document.getElementById("last");
const smoothing = document.getElementById("smoothing"), smoothed = document.getElementById("smoothed");
const ends = data.charts.flatMap(chart => [chart.rows[0][0], chart.rows[chart.rows.length - 1][0]]);
const whole = [Math.min(...ends), Math.max(...ends)];
let shownSteps = whole;

const isWhole = () => shownSteps[0] === whole[0] && shownSteps[1] === whole[1];
const within = (from, to) => [Math.max(whole[0], from), Math.min(whole[1], to)];

// Shows these steps in all charts. If there are none, nothing changes.
function show(from, to) {
  [from, to] = within(from, to);
  if (from < to) shownSteps = [from, to];
  first.value = Math.ceil(shownSteps[0]);
  last.value = Math.floor(shownSteps[1]);
  for (const {graph} of graphs) graph.updateOptions(isWhole() ? {dateWindow: null, valueRange: null} : {dateWindow: shownSteps});
}

// A vertical zoom of one chart leaves the steps as they are.
function zoomed(from, to) {
  [from, to] = within(from, to);
  if (from !== shownSteps[0] || to !== shownSteps[1]) show(from, to);
}

function zoom(factor) {
  const middle = (shownSteps[0] + shownSteps[1]) / 2, half = Math.max((shownSteps[1] - shownSteps[0]) * factor / 2, 1);
  show(middle - half, middle + half);
}

function move(part) {
  const length = shownSteps[1] - shownSteps[0];
  const from = Math.min(Math.max(shownSteps[0] + part * length, whole[0]), whole[1] - length);
  show(from, from + length);
}

const KEYS = {"+": () => zoom(.5), "=": () => zoom(.5), "-": () => zoom(2), "0": () => show(...whole), ArrowLeft: () => move(-.2),
  ArrowRight: () => move(.2)};

function draw(chart) {
  const figure = document.getElementById(chart.id), place = element("div", "chart"), values = element("ul", "values");
  const caption = figure.querySelector("figcaption"), few = chart.points || chart.rows.length < 40;
  if (chart.unit) caption.firstChild.textContent += ", " + chart.unit;
  place.tabIndex = 0;
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", caption.textContent + " over steps; + and - zoom, the arrows move, 0 shows all steps");
  place.addEventListener("keydown", event => {
    if (!(event.key in KEYS) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    KEYS[event.key]();
  });
  figure.append(values, place);
  const shown = {chart, values};
  shown.graph = new Dygraph(place, smoothedRows(chart, 1), {
    labels: ["step", ...names(chart).map((_, i) => String(i))],
    customBars: !chart.stack,
    stackedGraph: Boolean(chart.stack),
    connectSeparatedPoints: Boolean(chart.points),
    drawPoints: few,
    pointSize: 2,
    logscale: chart.log,
    colors: colors(chart),
    fillAlpha: .5,
    ...(chart.stack ? {} : {plotter: [drawBand, Dygraph.Plotters.linePlotter]}),
    strokeWidth: chart.stack ? 1 : 1.5,
    gridLineColor: "rgba(128, 128, 128, 0.25)",
    axisLineColor: "rgba(128, 128, 128, 0.6)",
    highlightCircleSize: 3,
    xRangePad: 4,
    axes: {
      x: {axisLabelFormatter: value => Number.isInteger(value) ? value.toLocaleString("en") : ""},
      y: {axisLabelFormatter: onAxis, axisLabelWidth: 55},
    },
    zoomCallback: zoomed,
    highlightCallback: (event, x, points, row) => showValues(shown, row),
    unhighlightCallback: () => showValues(shown),
  });
  if (!chart.stack) {
    const label = element("label"), box = shown.box = element("input");
    box.type = "checkbox";
    box.checked = chart.log;
    box.addEventListener("change", () => shown.graph.updateOptions({logscale: box.checked}));
    label.append(box, " log scale");
    caption.append(label);
  }
  graphs.push(shown);
  showValues(shown);
}

// Position n of the slider is a mean over 2^n points. Evaluations stay as they are.
function smooth() {
  const points = 2 ** smoothing.value;
  smoothed.textContent = points === 1 ? "off" : "mean of " + (points * data.width).toLocaleString("en") + " steps";
  for (const {graph, chart} of graphs) if (!chart.points) graph.updateOptions({file: smoothedRows(chart, points)});
}

// A page of a run that is watched loads itself again, and then shows the same steps in the same way.
const place = "strata " + location.pathname;

function remember() {
  const scales = Object.fromEntries(graphs.map(({graph, chart}) => [chart.id, graph.getOption("logscale")]));
  sessionStorage.setItem(place, JSON.stringify({steps: isWhole() ? null : shownSteps, smoothing: smoothing.value, scales}));
}

function recall() {
  const kept = JSON.parse(sessionStorage.getItem(place));
  sessionStorage.removeItem(place);
  if (!kept) return;
  if (kept.steps) show(...kept.steps);
  smoothing.value = kept.smoothing;
  smooth();
  for (const {graph, chart, box} of graphs) {
    if (!box || kept.scales[chart.id] === undefined) continue;
    box.checked = kept.scales[chart.id];
    graph.updateOptions({logscale: box.checked});
  }
}

function recolor() {
  for (const shown of graphs) {
    shown.graph.updateOptions({colors: colors(shown.chart)});
    showValues(shown);
  }
}

if (data.charts.length > 0) {
  data.charts.forEach(draw);
  document.getElementById("controls").hidden = false;
  show(...whole);
  smoothed.textContent = "off";
  for (const input of [first, last]) input.addEventListener("change", () => show(Number(first.value), Number(last.value)));
  document.getElementById("all").addEventListener("click", () => show(...whole));
  smoothing.addEventListener("input", smooth);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolor);
  try {
    recall();
  } catch (denied) {}  // some browsers keep nothing for files
  if (data.reload) addEventListener("pagehide", () => { try { remember(); } catch (denied) {} });
}
if (data.reload) setTimeout(() => location.reload(), 1000 * data.reload);
