// The details of one gateway: what was counted since the process began.
import { el, figure, section, table, tile } from "./dom.js";
import { dictionaries } from "./dictionaries.js";
import { meaning, remedy } from "./errors.js";
import { bytes, count, micros, money, percent, seconds } from "./format.js";
import { packing } from "./packer.js";
import { rules } from "./rules.js";

// sizeBar shows the bytes after compression as a share of those before. If they have grown it is a warning, not a full bar.
function sizeBar(t) {
  if (t.raw_bytes === 0) return "no values yet";
  if (t.stored_bytes > t.raw_bytes) return el("span", { class: "bad-text" }, "larger than before: stop compressing such values");
  return el("progress", { max: t.raw_bytes, value: t.stored_bytes, "aria-label": "bytes after, of bytes before" });
}

// effortTile shows the use of the gateway's CPU and latency budgets, if it has any.
function effortTile(e) {
  if (!e) return [];
  const steps = e.steps.filter((s) => s.share >= 0.005).map((s) => `${percent(s.share, 1)} ${stepWords[s.step]}`);
  return [tile("Budget", e.cpu_budget_cores ? percent(e.cores, e.cpu_budget_cores) : micros(e.latency_budget_seconds * 1e6),
    e.cpu_budget_cores ? `compressing takes ${percent(e.cores, 1)} of a core, the limit is ${percent(e.cpu_budget_cores, 1)}` : "",
    e.latency_budget_seconds ? `99 % of values within ${micros(e.latency_budget_seconds * 1e6)}` : "",
    "values: " + steps.join(", "))];
}

const stepWords = { rule: "with the rule's setting", fast: "fast", lz4: "lz4", raw: "not compressed" };

// moneyTile shows the saving by compression, less the cost of its CPU time.
function moneyTile(m) {
  if (!m) return null;
  return tile(m.so_far < 0 ? "Cost so far" : "Money saved so far", figure("money_so_far", m.so_far, money(m.so_far)), `a month at this rate ${money(m.month)}`);
}

function tiles(g) {
  const t = g.total;
  return el("dl", { class: "tiles" },
    tile("Bytes left", percent(t.stored_bytes, t.raw_bytes), [figure("raw_bytes", t.raw_bytes, bytes(t.raw_bytes)), " → ", figure("stored_bytes", t.stored_bytes, bytes(t.stored_bytes))], sizeBar(t)),
    tile("Values compressed", count(t.sealed), `of ${count(t.values)} covered`, `${count(t.opened)} decompressed`),
    tile("CPU", figure("cpu_seconds", t.seal_cpu_seconds + t.open_cpu_seconds, seconds(t.seal_cpu_seconds + t.open_cpu_seconds)),
      `compressing ${seconds(t.seal_cpu_seconds)}`, `decompressing ${seconds(t.open_cpu_seconds)}`),
    tile("Added latency", micros(g.latency.p50_us), ...(g.latency.count > 0 ?
      ["median, at most", `99 %: ${micros(g.latency.p99_us)}`] : [])),
    ...effortTile(g.effort), moneyTile(g.money),
    tile("Connections", count(g.connections.open), `${count(g.connections.total)} in total`,
      g.connections.rejected > 0 ? `${count(g.connections.rejected)} refused` : ""));
}

// messages lists the measured kinds of messages: numbers only, no contents.
function messages(list) {
  if (!list || list.length === 0) return null;
  return section("Messages measured", table("Messages measured",
    [["method"], ["messages"], ["bytes"], ["already compressed"], ["sampled"]],
    list.map((m) => [
      [m.method, el("div", { class: "small" }, m.direction)],
      count(m.messages), bytes(m.bytes), count(m.compressed_messages), count(m.sample_messages),
    ]), true));
}

// report draws a table that another program has published, such as a roll-out of the servers behind a gateway.
function report(r) {
  if (!r) return null;
  const rows = (r.rows ?? []).map((row) => row.map((cell, i) => i === 0 ? el("strong", null, cell) : cell || "–"));
  return section(r.title, table(r.title, (r.header ?? []).map((name) => [name, true]), rows, true), r.latest ? el("p", { class: "small" }, r.latest) : null);
}

function opened(g) {
  if (g.opened.length === 0) return null;
  return section("Decompressed by codec", table("Decompressed by codec", [["codec"], ["values"], ["size"], ["CPU"]],
    g.opened.map((o) => [o.codec, count(o.values), bytes(o.raw_bytes), seconds(o.cpu_seconds)])));
}

function wire(g) {
  const row = (name, t) => [name, bytes(t.received_bytes), bytes(t.sent_bytes)];
  return section("On the wire", table("On the wire", [["side"], ["received"], ["sent"]], [row("clients", g.wire.client), row("upstream", g.wire.upstream)]));
}

const byCount = (object) => Object.entries(object).sort((a, b) => b[1] - a[1]);

// counts returns a section of names with numbers, or null if there are none.
function counts(title, entries) {
  if (entries.length === 0) return null;
  return section(title, table(title, [["what"], ["count"]], entries.map(([name, n]) => [name, count(n)])));
}

// errors lists the error classes with their meaning.
function errors(g) {
  const list = byCount(g.errors);
  if (list.length === 0) return null;
  return section("Errors", table("Errors since the start", [["class, and what to do"], ["count"]], list.map(([name, n]) => [
    [el("span", { class: "bad-text" }, name), meaning(name) ? el("div", { class: "small" }, meaning(name)) : null], count(n)])));
}

// gatewayDetails shows everything counted for a gateway since the process began. asks: the process answers /api/whatif.
export function gatewayDetails(status, g, asks) {
  return [
    el("p", { class: "muted route" }, [g.listen, g.upstream].filter(Boolean).join(" → ")),
    g.trouble ? el("p", { class: "bad-text" }, remedy(g.trouble)) : null,
    report(g.report), tiles(g), rules(g, asks), messages(g.messages), dictionaries(status, g), packing(status, g), errors(g),
    el("div", { class: "columns" }, wire(g), opened(g),
      counts("Guarded commands", g.guarded.map((c) => [`${c.command}: ${c.outcome}`, c.count])),
      counts("Decompressed in place", byCount(g.inflated))),
  ].filter(Boolean);
}
