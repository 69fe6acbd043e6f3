// A panel: a chart with hover, zoom and its published curves.

function makePanel(panel, state, index) {
  const plot = make("svg", { class: "plot", tabindex: "0", role: "img", "aria-label": `learning curves of ${panel.title}` });
  const reset = make("button", { type: "button" }, "zoom out");
  const tip = make("div", { class: "tip" });
  const holder = make("figure", { class: "panel" }, make("figcaption", {}, make("strong", {}, panel.title), reset), plot, tip);
  let zoom = null, cursor = null, anchor = null, scale = null;
  tip.hidden = true;

  function draw() {
    const width = Math.max(plot.clientWidth, 240), height = Math.round(Math.min(340, Math.max(230, width * 0.6)));
    const full = fullRange(panel, state);
    plot.setAttribute("viewBox", `0 0 ${width} ${height}`);
    plot.setAttribute("height", height);
    reset.hidden = zoom === null;
    scale = null;
    if (full === null) {
      const why = state.axis === "hours" && !panel.fixed ? "the curves shown have no recorded hours" : "no curve is shown";
      plot.replaceChildren(make("text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, why));
      return hover(null);
    }
    const range = zoom ?? full, limits = heights(panel, state, range);
    const right = width - MARGIN.right, bottom = height - MARGIN.bottom;
    const x = (at) => MARGIN.left + ((at - range[0]) / (range[1] - range[0])) * (right - MARGIN.left);
    const y = (value) => bottom - ((value - limits[0]) / (limits[1] - limits[0])) * (bottom - MARGIN.top);
    const back = (pixel) => range[0] + ((pixel - MARGIN.left) / (right - MARGIN.left)) * (range[1] - range[0]);
    scale = { x, y, back, range, full, width, height, right, bottom };
    const clip = make("clipPath", { id: `clip${index}` }, make("rect", {
      x: MARGIN.left, y: MARGIN.top - 4, width: right - MARGIN.left, height: bottom - MARGIN.top + 4 }));
    const inside = make("g", { "clip-path": `url(#clip${index})` }, ...curvesOf(panel, state, x, y));
    plot.replaceChildren(clip, frame(panel, state, range, limits, x, y, width, height), inside, make("g", { class: "over" }));
    hover(cursor);
  }

  function overlay(...nodes) {
    plot.querySelector(".over")?.replaceChildren(...nodes);
  }

  // Shows the values nearest to an x-value; null hides them.
  function hover(at) {
    cursor = at;
    const found = at === null || !scale ? [] : values(at);
    tip.hidden = found.length === 0;
    if (tip.hidden) return overlay();
    const snapped = found.reduce((one, other) => (Math.abs(other.at - at) < Math.abs(one.at - at) ? other : one)).at;
    const place = scale.x(snapped);
    overlay(
      make("line", { class: "cursor", x1: place, x2: place, y1: MARGIN.top, y2: scale.bottom }),
      ...found.map((one) => paint(make("circle", { cx: scale.x(one.at), cy: scale.y(one.mean), r: 3.5 }), "fill", one.series)));
    const isSteps = state.axis === "steps";
    const head = panel.fixed ? `score ${plain(snapped)}` : isSteps ? `step ${Math.round(snapped).toLocaleString("en")}` : `${plain(snapped)} hours`;
    tip.replaceChildren(make("div", {}, head), ...found.sort((one, other) => other.mean - one.mean).slice(0, 12).map(line));
    const inner = plot.getBoundingClientRect(), outer = holder.getBoundingClientRect();
    const isLeft = place < scale.width / 2, left = inner.left - outer.left + place;
    tip.style.setProperty("left", isLeft ? `${left + 14}px` : "auto");
    tip.style.setProperty("right", isLeft ? "auto" : `${outer.width - left + 14}px`);
    tip.style.setProperty("top", `${inner.top - outer.top + 12}px`);
  }

  function values(at) {
    const slack = 0.03 * (scale.range[1] - scale.range[0]);
    return visible(panel, state).flatMap((series) => {
      const axis = axisOf(series, state, panel), index = nearest(axis, at);
      const outside = index < 0 || series.mean[index] === null || axis[index] < scale.range[0] || axis[index] > scale.range[1];
      const isAway = !outside && (at < axis[0] - slack || at > axis[axis.length - 1] + slack);
      return outside || isAway ? [] : [{ series, at: axis[index], mean: series.mean[index], index }];
    });
  }

  function line({ series, mean, index }) {
    const sd = series.sd?.[index] ?? null, size = Math.max(Math.abs(mean), sd ?? 0);
    const known = series.low && series.low[index] !== null;
    const more = sd !== null ? ` ± ${plain(sd, size)}` : known ? ` [${plain(series.low[index])}, ${plain(series.high[index])}]` : "";
    return make("div", {}, swatch(series), make("span", {}, series.name), make("b", {}, plain(mean, size) + more));
  }

  function zoomTo(range) {
    zoom = range && scale && range[1] - range[0] < (scale.full[1] - scale.full[0]) * 0.999 ? range : null;
    draw();
  }

  function zoomBy(factor) {
    if (!scale) return;
    const middle = cursor ?? (scale.range[0] + scale.range[1]) / 2, half = ((scale.range[1] - scale.range[0]) * factor) / 2;
    zoomTo([Math.max(scale.full[0], middle - half), Math.min(scale.full[1], middle + half)]);
  }

  function move(direction) {
    const first = scale && visible(panel, state)[0];
    if (!first) return;
    const axis = axisOf(first, state, panel).filter((at) => at !== null && at >= scale.range[0] && at <= scale.range[1]);
    const now = cursor === null ? (direction > 0 ? -1 : axis.length) : nearest(axis, cursor);
    hover(axis[Math.min(axis.length - 1, Math.max(0, now + direction))] ?? null);
  }

  const pixel = (event) => Math.min(scale.right, Math.max(MARGIN.left, event.clientX - plot.getBoundingClientRect().left));
  plot.addEventListener("pointermove", (event) => {
    if (!scale) return;
    const at = pixel(event);
    if (anchor === null) return hover(scale.back(at));
    tip.hidden = true;
    overlay(make("rect", { class: "selection", x: Math.min(anchor, at), y: MARGIN.top, width: Math.abs(at - anchor), height: scale.bottom - MARGIN.top }));
  });
  plot.addEventListener("pointerleave", () => anchor === null && hover(null));
  plot.addEventListener("pointerdown", (event) => {
    if (!scale || event.button !== 0) return;
    anchor = pixel(event);
    plot.setPointerCapture(event.pointerId);
  });
  plot.addEventListener("pointerup", (event) => {
    if (anchor === null || !scale) return;
    const ends = [anchor, pixel(event)].sort((one, other) => one - other);
    anchor = null;
    if (ends[1] - ends[0] > 8) zoomTo(ends.map(scale.back));
    else hover(scale.back(ends[0]));
  });
  plot.addEventListener("pointercancel", () => { anchor = null; hover(null); });
  plot.addEventListener("dblclick", () => zoomTo(null));
  plot.addEventListener("blur", () => hover(null));
  plot.addEventListener("keydown", (event) => {
    const act = { ArrowLeft: () => move(-1), ArrowRight: () => move(1), "+": () => zoomBy(0.5), "=": () => zoomBy(0.5), "-": () => zoomBy(2), 0: () => zoomTo(null), Escape: () => zoomTo(null) }[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  });
  reset.addEventListener("click", () => { zoomTo(null); plot.focus(); });
  holder.append(legend(panel, state, draw));
  const others = panel.series.filter((one) => one.kind === "other");
  if (others.length) holder.append(publishedChoice(others, draw));
  new ResizeObserver(draw).observe(holder);
  return { holder, draw, forget: () => { zoom = null; cursor = null; draw(); } };
}

// The curves of a panel by name; hiding a setting hides it in all panels.
function legend(panel, state, draw) {
  const shown = panel.series.filter((one) => one.kind !== "other");
  return make("div", { class: "legend", role: "group", "aria-label": `curves of ${panel.title}` }, ...shown.map((one) => {
    if (one.kind === "same") return choice(one, one.shown, (isOn) => { one.shown = isOn; draw(); }, one.note);
    const label = choice(one, true, (isOn) => state.choose(one.setting, isOn));
    label.querySelector("input").dataset.setting = one.setting;
    return label;
  }));
}

// The other published curves of a panel, listed when the user opens them: a page may have hundreds.
function publishedChoice(theirs, draw) {
  const list = make("details", {}, make("summary", {}, `more published curves (${theirs.length})`));
  const fill = () => list.append(...theirs.map((one) => choice(one, one.shown, (isOn) => { one.shown = isOn; draw(); }, one.note)));
  list.addEventListener("toggle", fill, { once: true });
  return list;
}

// A checkbox with the line and name of a curve.
function choice(series, isOn, act, note) {
  const box = make("input", { type: "checkbox" });
  box.checked = isOn;
  box.addEventListener("change", () => act(box.checked));
  return make("label", note ? { title: note } : {}, box, swatch(series), make("span", { class: "name" }, series.name));
}
