"use strict";
// A chart of learning curves as SVG. Text of runs only becomes text nodes.

const COLOURS = 7;
const MARGIN = { left: 52, right: 20, top: 8, bottom: 34 };

function make(name, attributes = {}, ...children) {
  const isSvg = ["svg", "path", "line", "rect", "text", "g", "clipPath", "circle"].includes(name);
  const node = isSvg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function colour(series) {
  return `var(--${series.kind === "other" ? "p" : "c"}${series.colour % COLOURS})`;
}

function paint(node, property, series) {
  node.style.setProperty(property, colour(series));
  return node;
}

// The marks of a curve whose colour another curve has already; dashes are for published curves.
function marks(series, points) {
  const shape = series.kind === "ours" ? Math.floor(series.colour / COLOURS) % 4 : 0;
  const draw = [null, (x, y) => `M${x - 3} ${y}a3 3 0 1 0 6 0a3 3 0 1 0 -6 0Z`, (x, y) => `M${x - 3} ${y - 3}h6v6h-6Z`,
    (x, y) => `M${x} ${y - 3.5}l3.5 6h-7Z`][shape];
  const text = draw ? points.map(([x, y]) => draw(x, y)).join("") : "";
  return text ? [paint(make("path", { class: "mark", d: text }), "fill", series)] : [];
}

function swatch(series) {
  const line = make("path", { d: "M0 5H26", class: series.kind === "ours" ? "mean" : "theirs" });
  return make("svg", { class: "swatch", "aria-hidden": "true" }, paint(line, "stroke", series), ...marks(series, [[13, 5]]));
}

// Formats a number as the tables do, with fewer decimals for a larger size.
function plain(value, of = value) {
  const size = Math.abs(of);
  const digits = size >= 100 ? 0 : size >= 10 ? 1 : 2;
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }).replace("-", "−");
}

function short(value) {
  for (const [unit, size] of [["M", 1e6], ["k", 1e3]])
    if (Math.abs(value) >= size) return `${Number((value / size).toPrecision(4))}${unit}`.replace("-", "−");
  return `${Number(value.toPrecision(4))}`.replace("-", "−");
}

function ticks(low, high, count) {
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-9; at += step) found.push(at);
  return found;
}

function nearest(axis, value) {
  let best = -1;
  axis.forEach((at, index) => {
    if (at !== null && (best < 0 || Math.abs(at - value) < Math.abs(axis[best] - value))) best = index;
  });
  return best;
}

// The x-values of a curve: steps or hours; null where hours are unknown.
function axisOf(series, state, panel) {
  return panel.fixed || state.axis === "steps" ? series.steps : series.hours;
}

// Computes the edges of the band of each curve that has a deviation.
function withBands(panel) {
  for (const one of panel.series) {
    if (!one.sd) continue;
    one.low = one.mean.map((mean, index) => mean - one.sd[index]);
    one.high = one.mean.map((mean, index) => mean + one.sd[index]);
  }
  return panel;
}

function visible(panel, state) {
  return panel.series.filter((one) => one.shown && !state.hidden.has(one.setting) && axisOf(one, state, panel));
}

function fullRange(panel, state) {
  const ours = visible(panel, state).filter((one) => one.kind === "ours");
  const ends = (ours.length ? ours : visible(panel, state)).flatMap((one) => axisOf(one, state, panel));
  const known = ends.filter((at) => at !== null);
  return known.length ? [0, Math.max(...known) || 1] : null;
}

// Lowest and highest value drawn within the x-range.
function heights(panel, state, range) {
  let low = Infinity, high = -Infinity;
  const take = (axis, values) => values.forEach((value, index) => {
    const at = axis[index];
    if (value === null || at === null || at < range[0] || at > range[1]) return;
    low = Math.min(low, value);
    high = Math.max(high, value);
  });
  for (const one of visible(panel, state)) {
    const axis = axisOf(one, state, panel);
    take(axis, one.mean);
    if (state.bands && one.low) [one.low, one.high].forEach((values) => take(axis, values));
    if (state.seeds) for (const line of one.lines) take(axisOf(line, state, panel) ?? axis, line.mean);
  }
  if (panel.fixed) return [0, 1];
  if (low > high) return [0, 1];
  const room = 0.05 * (high - low || Math.abs(high) || 1);
  return [low - room, high + room];
}

function path(axis, values, x, y) {
  let text = "", open = false;
  values.forEach((value, index) => {
    const known = value !== null && axis[index] !== null;
    if (known) text += `${open ? "L" : "M"}${x(axis[index]).toFixed(1)} ${y(value).toFixed(1)}`;
    open = known;
  });
  return text;
}

function area(axis, low, high, x, y) {
  const there = axis.map((_, index) => index).filter((index) => axis[index] !== null && low[index] !== null);
  const point = (values) => (index) => `${x(axis[index]).toFixed(1)} ${y(values[index]).toFixed(1)}`;
  return there.length ? `M${[...there.map(point(high)), ...there.reverse().map(point(low))].join("L")}Z` : "";
}

function curvesOf(panel, state, x, y) {
  const bands = make("g"), lines = make("g");
  for (const one of visible(panel, state)) {
    const axis = axisOf(one, state, panel), isOurs = one.kind === "ours";
    if (state.bands && one.low)
      bands.append(paint(make("path", { class: isOurs ? "band" : "band faint", d: area(axis, one.low, one.high, x, y) }), "fill", one));
    if (state.seeds)
      for (const line of one.lines)
        lines.append(paint(make("path", { class: "thin", d: path(axisOf(line, state, panel) ?? axis, line.mean, x, y) }), "stroke", one));
    lines.append(paint(make("path", { class: isOurs ? "mean" : "theirs", d: path(axis, one.mean, x, y) }), "stroke", one));
    const known = axis.map((_, index) => index).filter((index) => axis[index] !== null && one.mean[index] !== null);
    const every = Math.max(1, Math.floor(known.length / 8));
    lines.append(...marks(one, known.filter((_, place) => place % every === 0).map((index) => [x(axis[index]), y(one.mean[index])])));
    if (axis.length === 1 && axis[0] !== null)
      lines.append(paint(make("circle", { cx: x(axis[0]), cy: y(one.mean[0]), r: 3.5 }), "fill", one));
  }
  return [bands, lines];
}

function frame(panel, state, range, limits, x, y, width, height) {
  const parts = make("g"), bottom = height - MARGIN.bottom;
  for (const value of ticks(...limits, height / 60)) {
    const at = y(value);
    parts.append(make("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: at, y2: at }));
    parts.append(make("text", { x: MARGIN.left - 8, y: at + 4, "text-anchor": "end" }, short(value)));
  }
  for (const value of ticks(...range, width / 90)) {
    parts.append(make("text", { x: x(value), y: bottom + 16, "text-anchor": "middle" }, short(value)));
  }
  parts.append(make("line", { class: "base", x1: MARGIN.left, x2: width - MARGIN.right, y1: bottom, y2: bottom }));
  const words = panel.fixed ? panel.words : state.axis === "steps" ? "environment steps" : "hours of training";
  parts.append(make("text", { x: (MARGIN.left + width - MARGIN.right) / 2, y: height - 3, "text-anchor": "middle" }, words));
  if (panel.target !== null && panel.target > limits[0] && panel.target < limits[1]) {
    const at = y(panel.target);
    parts.append(make("line", { class: "target", x1: MARGIN.left, x2: width - MARGIN.right, y1: at, y2: at }));
  }
  return parts;
}
