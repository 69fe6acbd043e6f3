"use strict";

// Look every few seconds whether the runs have changed, and load the report again if they have.
const frame = document.getElementById("report");
const state = document.getElementById("state");
let stamp = null;

function choices() {
  const inputs = [...frame.contentDocument.querySelectorAll("input")];
  return new Map(inputs.map((input) => [`${input.name} ${input.closest("label")?.textContent}`, input]));
}

function reload() {
  const place = frame.contentWindow.scrollY;
  const before = new Map([...choices()].map(([name, input]) => [name, input.checked]));
  frame.addEventListener("load", () => {
    for (const [name, input] of choices()) {
      if (before.has(name) && input.checked !== before.get(name) && (input.type !== "radio" || before.get(name))) {
        input.click();
      }
    }
    frame.contentWindow.scrollTo(0, place);
  }, { once: true });
  frame.contentWindow.location.reload();
}

async function look() {
  try {
    const found = (await (await fetch("/state")).json()).stamp;
    if (stamp !== null && found !== stamp) reload();
    stamp = found;
    state.textContent = "";
  } catch {
    state.textContent = "smrl watch does not answer; this is what it showed last.";
  }
}

look();
setInterval(look, 3000);
