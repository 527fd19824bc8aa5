// The details of one gateway, and of the process: what was counted since the process began.
import { el, section, table, tile } from "./dom.js";
import { meaning } from "./errors.js";
import { bytes, count, micros, percent, ratio, seconds } from "./format.js";

// effortTile says how compressing keeps to the gateway's budgets, where it has any.
function effortTile(e) {
  if (!e) return [];
  const steps = e.steps.filter((s) => s.share >= 0.005).map((s) => `${percent(s.share, 1)} ${stepWords[s.step]}`);
  return [tile("Budget", e.cpu_budget_cores ? percent(e.cores, e.cpu_budget_cores) : micros(e.latency_budget_seconds * 1e6),
    e.cpu_budget_cores ? `compressing takes ${percent(e.cores, 1)} of a core, ${percent(e.cpu_budget_cores, 1)} may be` : "",
    e.latency_budget_seconds ? `99 % of values within ${micros(e.latency_budget_seconds * 1e6)}` : "",
    "values: " + steps.join(", "))];
}

const stepWords = { rule: "as rules say", fast: "fast", lz4: "lz4", raw: "not compressed" };

function tiles(g) {
  const t = g.total;
  return el("dl", { class: "tiles" },
    tile("Ratio", ratio(t.ratio), t.raw_bytes > 0 ? `${bytes(t.raw_bytes)} → ${bytes(t.stored_bytes)}` : "no values yet"),
    tile(t.saved_bytes < 0 ? "Lost" : "Saved", bytes(Math.abs(t.saved_bytes)), t.raw_bytes > 0 ? percent(Math.abs(t.saved_bytes), t.raw_bytes) + " of values' bytes" : ""),
    tile("Values compressed", count(t.sealed), `of ${count(t.values)} covered`, `${count(t.opened)} opened`),
    tile("CPU", seconds(t.seal_cpu_seconds + t.open_cpu_seconds),
      `compressing ${seconds(t.seal_cpu_seconds)}`, `opening ${seconds(t.open_cpu_seconds)}`),
    tile("Added latency", micros(g.latency.p50_us), ...(g.latency.count > 0 ?
      ["median, at most", `99 %: ${micros(g.latency.p99_us)}`] : [])),
    ...effortTile(g.effort),
    tile("Connections", count(g.connections.open), `${count(g.connections.total)} in total`,
      g.connections.rejected > 0 ? `${count(g.connections.rejected)} refused` : ""));
}

function leftText(rule) {
  return rule.left_by.map((l) => `${l.reason} ${count(l.values)}`).join(", ");
}

// observedText says what a rule that only observes would have done.
function observedText(o) {
  return `would compress: ${bytes(o.raw_bytes)} → ${bytes(o.stored_bytes)} (${ratio(o.ratio)}) of ${count(o.values)} values, ` +
    `compressing ${seconds(o.seal_cpu_seconds)}, opening ${seconds(o.open_cpu_seconds)}`;
}

function ruleRow(r) {
  const name = el("div", { class: r.active ? "" : "gone" }, el("strong", null, r.rule), r.active ? "" : " (removed)");
  const about = [r.match, r.setting].filter(Boolean).join(" → ");
  const left = leftText(r);
  return [
    [name, about ? el("div", { class: "small" }, about) : null, r.observed ? el("div", { class: "small" }, observedText(r.observed)) : null, left ? el("div", { class: "small" }, "left: " + left) : null],
    count(r.sealed), count(r.left), bytes(r.raw_bytes), bytes(r.stored_bytes),
    el("strong", null, ratio(r.ratio)), seconds(r.seal_cpu_seconds),
  ];
}

function rules(g) {
  if (g.rules.length === 0) return section("Rules", el("p", { class: "muted" }, "No rules: nothing is compressed, everything opens."));
  return section("Rules", table(
    [["rule"], ["compressed"], ["left"], ["before"], ["after"], ["ratio"], ["CPU"]], g.rules.map(ruleRow), true));
}

// packing says how far the gateway is with what the upstream holds already.
function packing(p) {
  if (!p) return null;
  const state = p.running ? `${p.estimate ? "estimating" : "packing"}, ${percent(p.done, 1)}` : p.wanted ? "waiting for the next pass" : "off, with the gateway or without rules";
  return section("Stored already", table([["state"], ["passes"], ["keys"], [p.estimate ? "would be compressed" : "compressed"], ["before"], ["after"], ["problems"]], [[
    [state, p.last_pass ? el("div", { class: "small" }, "last pass ended " + new Date(p.last_pass).toLocaleString()) : null,
      p.trouble ? el("div", { class: "small bad-text" }, p.trouble) : null,
      p.without_dictionary ? el("div", { class: "small" }, "without dictionaries, as the server has several users, or may have: share_samples: true allows one") : null],
    count(p.passes), count(p.keys), count(p.values), bytes(p.before_bytes), bytes(p.after_bytes), count(p.problems),
  ]], true));
}

// messages are the kinds of messages that are measured, in numbers.
function messages(list) {
  if (!list || list.length === 0) return null;
  return section("Messages measured", table(
    [["method"], ["messages"], ["bytes"], ["passed compressed"], ["sampled"], ["dictionary"], ["promised"], ["observed"]],
    list.map((m) => [
      [m.method, el("div", { class: "small" }, m.rule ? `${m.direction}, ${m.rule}` : m.direction)],
      count(m.messages), bytes(m.bytes), count(m.compressed_messages), count(m.sample_messages),
      m.dictionary ? `${m.dictionary} (${bytes(m.dictionary_bytes)})` : "", ratio(m.promised ?? 0), ratio(m.observed ?? 0),
    ]), true));
}

// report is a table that another program has had shown here, such as a roll-out of the servers behind a gateway.
function report(r) {
  if (!r) return null;
  const rows = (r.rows ?? []).map((row) => row.map((cell, i) => i === 0 ? el("strong", null, cell) : cell || "–"));
  return section(r.title, table((r.header ?? []).map((name) => [name, true]), rows, true), r.latest ? el("p", { class: "small" }, r.latest) : null);
}

function opened(g) {
  if (g.opened.length === 0) return null;
  return section("Opened by codec", table([["codec"], ["values"], ["size"], ["CPU"]],
    g.opened.map((o) => [o.codec, count(o.values), bytes(o.raw_bytes), seconds(o.cpu_seconds)])));
}

function wire(g) {
  const row = (name, t) => [name, bytes(t.received_bytes), bytes(t.sent_bytes)];
  return section("On the wire", table([["side"], ["received"], ["sent"]], [row("clients", g.wire.client), row("upstream", g.wire.upstream)]));
}

const byCount = (object) => Object.entries(object).sort((a, b) => b[1] - a[1]);

// counts is a section of names with numbers, or nothing when there are none.
function counts(title, entries) {
  if (entries.length === 0) return null;
  return section(title, table([[""], ["count"]], entries.map(([name, n]) => [name, count(n)])));
}

// errors say what each class means.
function errors(g) {
  const list = byCount(g.errors);
  if (list.length === 0) return null;
  return section("Errors", table([["class"], ["count"]], list.map(([name, n]) => [
    [el("span", { class: "bad-text" }, name), meaning(name) ? el("div", { class: "small" }, meaning(name)) : null], count(n)])));
}

// sizeBar shows what is left of the values' bytes; a loss is no full bar of success.
function sizeBar(t) {
  if (t.raw_bytes === 0) return null;
  if (t.stored_bytes > t.raw_bytes) {
    return el("p", { class: "small bad-text" }, `${percent(t.stored_bytes - t.raw_bytes, t.raw_bytes)} more bytes than before: leave such values alone`);
  }
  return el("div", null,
    el("progress", { max: t.raw_bytes, value: t.stored_bytes, "aria-label": "bytes after, of bytes before" }),
    el("p", { class: "small" }, `${percent(t.stored_bytes, t.raw_bytes)} of the bytes are left`));
}

// gatewayDetails are everything that is counted of a gateway since the process began.
export function gatewayDetails(g) {
  return [
    el("p", { class: "muted route" }, [g.listen, g.upstream].filter(Boolean).join(" → ")),
    report(g.report), tiles(g), sizeBar(g.total), rules(g), messages(g.messages), packing(g.pack), errors(g),
    el("div", { class: "columns" }, wire(g), opened(g),
      counts("Guarded commands", g.guarded.map((c) => [`${c.command}: ${c.outcome}`, c.count])),
      counts("Inflated", byCount(g.inflated))),
  ].filter(Boolean);
}

// budgetTile shows the bytes in flight of one direction, and who had to wait for some.
function budgetTile(label, b) {
  if (b.size_bytes === 0) return tile(label, "no bound");
  return tile(label, bytes(b.in_use_bytes), `of ${bytes(b.size_bytes)}`, `peak ${bytes(b.peak_bytes)}`,
    b.waiting > 0 ? `${count(b.waiting)} waiting now` : "",
    b.waits > 0 ? `${count(b.waits)} waits, ${seconds(b.wait_seconds)}` : "no waits",
    b.gave_up > 0 ? `${count(b.gave_up)} gave up` : "");
}

export function processCard(s) {
  return el("section", { class: "card" }, el("h2", null, "Process"),
    el("dl", { class: "tiles" },
      tile("Up", seconds(s.uptime_seconds)),
      budgetTile("Requests in flight", s.budget.request),
      budgetTile("Replies in flight", s.budget.reply),
      s.codec ? tile("Codecs at work", count(s.codec.in_flight), `of ${count(s.codec.limit)}`) : null),
    s.dictionaries.length === 0 ? null : section("Dictionaries", table(
      [["name"], ["number"], ["size"], ["promised"], ["observed"]], s.dictionaries.map(dictionaryRow))),
    s.learning.length === 0 ? null : section("Dictionaries to come", table(
      [["rule"], ["state", true], ["sampled"]], s.learning.map(learningRow))));
}

// learningRow says how far a rule is from its dictionary.
function learningRow(l) {
  const state = l.step ? `training: step ${l.step} of ${l.steps}, ${l.trying}`
    : l.refused ? "none was worth it so far" : "collecting values";
  const kind = l.method ? el("div", { class: "small" }, `${l.method}, ${l.direction}`) : null;
  return [[`${l.gateway}: ${l.rule}`, kind], state, l.samples < l.wanted ? `${count(l.samples)} of ${count(l.wanted)}` : `${count(l.samples)}, enough`];
}

// dictionaryRow has the ratios of those that gateways made themselves.
function dictionaryRow(d) {
  const name = d.name || (d.rule ? `${d.gateway}: ${d.rule} (auto)` : "(from a store)");
  const drifts = d.observed > 0 && d.observed < 0.7 * d.promised;
  return [name, d.number, bytes(d.bytes), ratio(d.promised ?? 0), drifts ? el("span", { class: "bad-text" }, ratio(d.observed) + ", values have changed") : ratio(d.observed ?? 0)];
}
