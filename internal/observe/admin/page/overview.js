// A row for each gateway, which can be opened.
import { el, figure, hidden } from "./dom.js";
import { gatewayDetails } from "./details.js";
import { bytes, cores, count, micros, money, percent, perSecond, rate, ratio } from "./format.js";

const columns = [["gateway", ""], ["saving, 5 min", "spark"], ["saved", ""], ["before", "some"], ["after", "some"], ["ratio", ""], ["CPU", "rest"], ["added p99", "rest"], ["clients", "rest"], ["errors", "rest"], ["a month", "rest"]];

// rows returns the rows of all gateways. Only open ones have details.
export function rows(status, rates, pasts, open, asks) {
  const shown = status.money ? columns : columns.slice(0, -1);
  const kind = status.money ? " with-money" : "";
  return [
    el("div", { class: "row names" + kind, "aria-hidden": "true" }, shown.map(([name, kind]) => el("span", { class: kind }, name))),
    el("div", { class: "gateways", "data-key": "rows" }, status.gateways.map((g) => row(status, g, rates?.get(g.name), pasts.get(g.name), open.has(g.name), shown, kind, asks))),
  ];
}

function row(status, g, now, past, isOpen, shown, kind, asks) {
  const cells = [
    name(status, g), past?.draw() ?? "", figure("saved_bytes", g.total.saved_bytes, loss(g.total.saved_bytes)), now ? perSecond(now.before) : "–", now ? perSecond(now.after) : "–",
    figure("ratio", g.total.ratio, ratio(g.total.ratio)), now ? cores(now.cpu) : "–", now ? micros(now.p99) : "–", count(g.connections.open), now ? errorRate(now.errors) : "–",
    g.money ? el("span", g.money.month < 0 ? { class: "bad-text" } : null, figure("money_month", g.money.month, money(g.money.month))) : "–",
  ];
  const spans = shown.map(([label, kind], i) => el("span", { class: kind }, i > 1 ? el("span", { class: "label" }, label + " ") : null, cells[i]));
  return el("details", { "data-gateway": g.name, "data-key": "gateway " + g.name, class: g.trouble ? "failed" : null, ...(isOpen ? { open: "" } : {}) },
    el("summary", { class: "row" + kind }, spans, g.trouble ? el("span", { class: "trouble" }, "does not serve: " + g.trouble) : null),
    el("div", { class: "body", "data-key": "body" }, isOpen ? [el("h3", { class: "sr" }, "Gateway " + g.name), gatewayDetails(status, g, asks)].flat() : null));
}

const loss = (saved) => saved < 0 ? el("span", { class: "bad-text" }, "−" + bytes(-saved)) : bytes(saved);
const errorRate = (n) => n > 0 ? el("span", { class: "bad-text" }, rate(n) + "/s") : "0";

function name(status, g) {
  const state = g.trouble ? "bad" : g.enabled ? "ok" : "off";
  const notes = [g.protocol, g.enabled ? "" : "off: only decompresses", ...doing(status, g)].filter(Boolean).join(" · ");
  return [el("span", { class: "dot " + state }, hidden(g.trouble ? "failed: " : "")), el("strong", null, g.name), el("span", { class: "small" }, " " + notes)];
}

// doing lists a gateway's background work.
function doing(status, g) {
  const trained = status.learning.find((l) => l.gateway === g.name && l.step);
  return [
    trained ? `training a dictionary, ${trained.step} of ${trained.steps}` : "",
    g.pack?.paused ? "packing paused" : g.pack?.running ? `packing ${percent(g.pack.done, 1)}` : "",
    g.effort && g.effort.step && g.effort.step !== "rule" ? "limited by its budget" : "",
  ];
}
