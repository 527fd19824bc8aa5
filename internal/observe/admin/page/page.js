// Draws the page anew for each document of /api/status.
import { act, once } from "./actions.js";
import { el } from "./dom.js";
import { processCard } from "./process.js";
import { History } from "./history.js";
import { live } from "./live.js";
import { rows } from "./overview.js";
import { savings, storesOf } from "./query.js";
import { Past } from "./spark.js";
import { patch } from "./patch.js";
import { between } from "./rates.js";
import { prices, totals } from "./totals.js";
import { WhatIf } from "./whatif.js";

const gapMs = 30000; // documents farther apart give no current rates
const main = document.getElementById("main");
const at = Object.fromEntries(["totals", "gateways", "process"].map((id) => [id, document.getElementById(id)]));
const history = new History(document.getElementById("history"));
const pasts = new Map(); // by gateway
const open = new Set(); // gateways by name
let last = null, came = 0, rates = null;

function show(status) {
  const now = Date.now();
  if (!last) begin(status);
  rates = now - came < gapMs ? between(last, status) : null;
  last = status;
  came = now;
  for (const [name, r] of rates ?? []) {
    pastFor(name).add(now, r.before - r.after);
  }
  draw();
  history.gateways(status.gateways.map((g) => g.name), storesOf(status));
  main.classList.remove("stale");
  document.getElementById("updated").textContent = "as of " + new Date(now).toLocaleTimeString();
  setState(status);
}

// begin opens the row of the only gateway, and requests the last five minutes.
async function begin(status) {
  if (status.gateways.length === 1) open.add(status.gateways[0].name);
  main.hidden = false;
  try {
    for (const [name, points] of await savings(storesOf(status))) pastFor(name).before(points);
  } catch { /* then sparklines begin now */ }
}

function pastFor(name) {
  if (!pasts.has(name)) pasts.set(name, new Past());
  return pasts.get(name);
}

function draw() {
  patch(at.totals, totals(last, rates), prices(last.money));
  patch(at.gateways, last.gateways.length === 0 ? el("p", { class: "note" }, "No gateways are configured.") : rows(last, rates, pasts, open, whatIf.answers));
  patch(at.process, processCard(last));
}

function setState(status) {
  const failed = status.gateways.filter((g) => g.trouble).length;
  const amiss = [...status.degraded];
  if (!status.ready) amiss.unshift(failed > 0 ? `${failed} of ${status.gateways.length} gateways not serving` : status.not_ready); // their rows say why
  say([status.ready ? "ready" : "not ready", ...amiss].join(": "), status.ready && amiss.length === 0);
}

function say(text, ok) {
  const state = document.getElementById("state");
  if (state.textContent !== text) state.textContent = text; // otherwise screen readers would repeat it
  state.className = "state " + (ok ? "ok" : "bad");
}

// Opening a row draws its details at once; closing it removes them.
at.gateways.addEventListener("toggle", (event) => {
  const name = event.target.dataset.gateway;
  if (!name || open.has(name) === event.target.open) return;
  if (event.target.open) open.add(name);
  else open.delete(name);
  draw();
}, true);

const asked = live(show, () => {
  main.classList.add("stale");
  say("no answer", false);
});
const whatIf = new WhatIf(at.gateways, () => last?.actions ?? [], asked);

// The result of an action is shown once a new status has arrived.
const done = { "pack-pause": "Paused.", "pack-resume": "Resumed." };
at.gateways.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-action]");
  if (!button || !done[button.dataset.action]) return;
  once(button, async () => {
    const name = button.dataset.action, failed = await act(name, { gateway: button.dataset.of });
    await asked();
    return failed || done[name];
  });
});
