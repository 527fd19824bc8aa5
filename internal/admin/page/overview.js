// All gateways at a glance: sums first, then a row for each, which opens.
import { el, svg, tile } from "./dom.js";
import { gatewayDetails } from "./details.js";
import { bytes, cores, count, micros, percent, perSecond, rate, ratio } from "./format.js";
import { total } from "./rates.js";

const kept = 150; // points of a sparkline: five minutes

// Overview keeps its rows between looks, so that focus and what is open stay.
export class Overview {
  constructor() {
    this.sums = el("dl", { class: "tiles sums" });
    this.list = el("div", { class: "gateways" });
    this.node = el("section", { class: "card" }, el("h2", null, "Gateways"), this.sums, header(), this.list);
    this.rows = new Map();
  }

  show(status, rates) {
    this.sums.replaceChildren(...sums(status, rates));
    const names = new Set(status.gateways.map((g) => g.name));
    for (const [name, row] of this.rows) {
      if (names.has(name)) continue;
      row.node.remove();
      this.rows.delete(name);
    }
    for (const g of status.gateways) {
      if (!this.rows.has(g.name)) {
        const row = new Row(g, status.gateways.length === 1);
        this.rows.set(g.name, row);
        this.list.append(row.node);
      }
      this.rows.get(g.name).show(g, rates?.get(g.name));
    }
  }
}

function sums(status, rates) {
  const now = total(rates);
  let raw = 0, stored = 0, open = 0, amiss = 0;
  for (const g of status.gateways) {
    raw += g.total.raw_bytes;
    stored += g.total.stored_bytes;
    open += g.connections.open;
    if (g.trouble) amiss++;
  }
  const saved = raw - stored;
  return [
    tile(saved < 0 ? "Lost since the start" : "Saved since the start", bytes(Math.abs(saved)), raw > 0 ? `${percent(Math.abs(saved), raw)} of ${bytes(raw)}` : "no values yet"),
    tile("Saving now", perSecond(now.before - now.after), now.before > 0 ? `of ${perSecond(now.before)}` : rates ? "no values just now" : "measuring"),
    tile("Ratio now", ratio(now.after > 0 ? now.before / now.after : 0), stored > 0 ? `${ratio(raw / stored)} since the start` : ""),
    tile("CPU now", cores(now.cpu), "cores, compressing and opening"),
    tile("Added latency now", micros(now.p50), now.p99 > 0 ? `at most, in the median; 99 %: ${micros(now.p99)}` : "no exchanges just now"),
    tile("Clients", count(open), amiss > 0 ? el("span", { class: "bad-text" }, `${amiss} of ${status.gateways.length} gateways not serving`) : `${rate(now.exchanges)} exchanges a second`),
  ];
}

const columns = [["gateway", ""], ["saving, 5 min", "spark"], ["before", ""], ["after", ""], ["ratio", ""], ["CPU", "rest"], ["added p99", "rest"], ["clients", "rest"], ["errors", "rest"]];

function header() {
  return el("div", { class: "row names", "aria-hidden": "true" }, columns.map(([name, kind]) => el("span", { class: kind }, name)));
}

class Row {
  constructor(g, open) {
    this.past = [];
    this.cells = columns.map(([name, kind]) => el("span", { class: kind, "data-label": name }));
    this.trouble = el("span", { class: "trouble" });
    this.body = el("div", { class: "body" });
    this.node = el("details", open ? { open: "" } : null, el("summary", { class: "row" }, this.cells, this.trouble), this.body);
    this.node.addEventListener("toggle", () => this.fill());
  }

  show(g, now) {
    this.gateway = g;
    if (now) {
      this.past.push(now.before - now.after);
      if (this.past.length > kept) this.past.shift();
    }
    const state = g.trouble ? "bad" : g.enabled ? "ok" : "off";
    const texts = [
      [el("span", { class: "dot " + state, "aria-hidden": "true" }), el("strong", null, g.name), " ", el("span", { class: "small" }, g.protocol + (g.enabled ? "" : ", off: opens only"))],
      sparkline(this.past), now ? perSecond(now.before) : "", now ? perSecond(now.after) : "", now && now.after > 0 ? ratio(now.before / now.after) : ratio(g.total.ratio),
      now ? cores(now.cpu) : "", now ? micros(now.p99) : "", count(g.connections.open), now ? rate(now.errors) : "",
    ];
    texts.forEach((text, i) => this.cells[i].replaceChildren(...[text].flat()));
    this.trouble.textContent = g.trouble ? "does not serve: " + g.trouble : "";
    this.node.classList.toggle("failed", Boolean(g.trouble));
    this.fill();
  }

  fill() {
    this.body.replaceChildren(...(this.node.open ? gatewayDetails(this.gateway) : []));
  }
}

const wide = 120, high = 24;

// sparkline is what was saved a second; below the line it was a loss.
function sparkline(past) {
  if (past.length < 2) return "";
  const most = Math.max(...past, 1), least = Math.min(...past, 0);
  const y = (v) => high - 1 - (v - least) / (most - least) * (high - 2);
  const x = (i) => wide - (past.length - 1 - i) * wide / (kept - 1); // now is at the right
  const points = past.map((v, i) => `${x(i).toFixed(1)},${y(v).toFixed(1)}`).join(" ");
  return svg("svg", { class: "sparkline", preserveAspectRatio: "none", viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": `saving ${perSecond(past.at(-1))}, at most ${perSecond(most)} lately` },
    svg("line", { x1: 0, x2: wide, y1: y(0), y2: y(0) }), svg("polyline", { points }));
}
