// Fills the page from its data block.

const data = JSON.parse(document.getElementById("data").textContent);
const state = { axis: "steps", bands: true, seeds: false, hidden: new Set(), choose };
const place = (name) => document.getElementById(name);

function table(content) {
  const kind = (index) => (content.left.includes(content.columns[index]) ? "words" : "");
  const cell = (name) => (text, index) => make(name, { class: kind(index) + (text.length > 60 ? " long" : "") }, text);
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": content.title }, make("table", {},
    make("thead", {}, make("tr", {}, ...content.columns.map(cell("th")))),
    make("tbody", {}, ...content.rows.map((row) => make("tr", {}, ...row.map(cell("td")))))));
}

// Puts tables into a section: below headings, or folded.
function show(name, tables, form) {
  if (tables.length) place(name).hidden = false;
  for (const content of tables) {
    const parts = [table(content), ...(content.note ? [make("p", { class: "hint" }, content.note)] : [])];
    if (form === "folded") place(name).append(make("details", { class: "fold" }, make("summary", {}, `${content.title} (${content.rows.length})`), ...parts));
    else place(name).append(...(form === "titled" ? [make("h3", {}, content.title)] : []), ...parts);
  }
}

// Shows or hides a setting in all panels.
function choose(setting, isOn) {
  if (isOn) state.hidden.delete(setting);
  else state.hidden.add(setting);
  for (const box of document.querySelectorAll(".legend input"))
    if (box.dataset.setting === setting) box.checked = isOn;
  redraw();
}

place("lead").append(data.lead);
place("foot").append(data.foot);
place("dashed").hidden = data.sources.length === 0;
place("problems").hidden = data.problems.length === 0;
place("problems").querySelector("ul").append(...data.problems.map((message) => make("li", {}, message)));

const panels = data.panels.map((panel, index) => makePanel(withBands(panel), state, index));
place("panels").append(...panels.map((panel) => panel.holder));
const redraw = () => panels.forEach((panel) => panel.draw());
for (const radio of document.querySelectorAll("input[name=axis]"))
  radio.addEventListener("change", () => {
    state.axis = radio.value;
    panels.forEach((panel) => panel.forget());
  });
for (const name of ["bands", "seeds"])
  place(name).addEventListener("change", (event) => { state[name] = event.target.checked; redraw(); });

show("results", data.results, "titled");
show("aggregate", data.aggregate, "");
if (data.profile) {
  const profile = makePanel(data.profile, state, "profile");
  place("aggregate").append(make("div", { class: "panels" }, profile.holder));
  panels.push(profile);
}
show("published", data.published, "titled");
show("runs", data.runs, "folded");
show("sources", data.sources, "");
