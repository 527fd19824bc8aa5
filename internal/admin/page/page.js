// Draws /api/status and asks for it again every two seconds while the page is visible.
import { el } from "./dom.js";
import { processCard } from "./details.js";
import { Overview } from "./overview.js";
import { between } from "./rates.js";

const refreshMs = 2000;
const main = document.getElementById("main");
const overview = new Overview();
const rest = el("div");
let last = null;

function show(status) {
  const rates = between(last, status);
  last = status;
  if (status.gateways.length === 0) {
    main.replaceChildren(el("p", { class: "note" }, "No gateways are configured."), rest);
  } else {
    if (!overview.node.isConnected) main.replaceChildren(overview.node, rest);
    overview.show(status, rates);
  }
  rest.replaceChildren(processCard(status));
  main.classList.remove("stale");
  const failed = status.gateways.filter((g) => g.trouble).length;
  const amiss = [...status.degraded];
  if (!status.ready) amiss.unshift(failed > 0 ? `${failed} of ${status.gateways.length} gateways not serving` : status.not_ready); // their rows say why
  setState([status.ready ? "ready" : "not ready", ...amiss].join(": "), status.ready && amiss.length === 0);
  document.getElementById("updated").textContent = "as of " + new Date().toLocaleTimeString();
}

function setState(text, ok) {
  const state = document.getElementById("state");
  if (state.textContent !== text) state.textContent = text; // else screen readers repeat it
  state.className = "state " + (ok ? "ok" : "bad");
}

async function refresh() {
  try {
    const answer = await fetch("api/status", { signal: AbortSignal.timeout(5000) });
    if (!answer.ok) throw new Error("answered " + answer.status);
    show(await answer.json());
  } catch {
    main.classList.add("stale");
    setState("no answer", false);
  }
}

async function run() {
  for (;;) {
    if (!document.hidden) await refresh();
    await new Promise((done) => setTimeout(done, refreshMs));
  }
}

run();
