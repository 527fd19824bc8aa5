"use strict";
// Draws /api/status and asks for it again every two seconds while the page is
// visible. All text goes in as text, never as HTML.

const refreshMs = 2000;
const main = document.getElementById("main");

// el makes an element; children are elements, strings, or nothing.
function el(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes ?? {})) node.setAttribute(key, value);
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== "") node.append(child);
  }
  return node;
}

const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const count = (n) => n < 1e5 ? plain.format(n) : scaled(n, 1000, ["", " k", " M", " G", " T"]);

function scaled(n, base, units) {
  let i = 0;
  while (i < units.length - 1 && Math.abs(n) >= base) { n /= base; i++; }
  const digits = i === 0 || Math.abs(n) >= 100 ? 0 : Math.abs(n) >= 10 ? 1 : 2;
  return n.toFixed(digits) + units[i];
}

const bytes = (n) => scaled(n, 1024, [" B", " KiB", " MiB", " GiB", " TiB", " PiB"]);
const ratio = (r) => r === 0 ? "–" : r.toFixed(r < 10 ? 2 : 1) + "×";
const micros = (us) => us === 0 ? "–" : us < 1000 ? scaled(us, 1e9, [" µs"]) : scaled(us / 1000, 1e9, [" ms"]);
const percent = (part, whole) => whole === 0 ? "–" : (100 * part / whole).toFixed(1) + " %";

function seconds(s) {
  if (s === 0) return "0 s";
  if (s < 1) return scaled(s * 1000, 1e9, [" ms"]);
  if (s < 120) return s.toFixed(s < 10 ? 2 : 1) + " s";
  const units = [["d", 86400], ["h", 3600], ["min", 60]];
  const at = units.findIndex(([, size]) => s >= size);
  const [unit, size] = units[at];
  const rest = at + 1 < units.length ? Math.floor((s % size) / units[at + 1][1]) : 0;
  return `${Math.floor(s / size)} ${unit}` + (rest > 0 ? ` ${rest} ${units[at + 1][0]}` : "");
}

function tile(label, big, ...small) {
  return el("div", null, el("dt", null, label), el("dd", null,
    el("div", { class: "big" }, big), small.map((line) => el("div", { class: "small" }, line))));
}

// table draws rows of cells; columns are [label, isText].
function table(columns, rows, wide) {
  const head = el("tr", null, columns.map(([label, isText]) => el("th", isText ? { scope: "col", class: "text" } : { scope: "col" }, label)));
  const body = rows.map((cells) => el("tr", null, cells.map((cell, i) => {
    const attributes = i === 0 ? {} : { "data-label": columns[i][0], class: columns[i][1] ? "text" : "number" };
    return el("td", attributes, cell);
  })));
  return el("table", wide ? { class: "wide" } : null, el("thead", null, head), el("tbody", null, body));
}

function section(title, ...content) {
  return el("section", null, el("h3", null, title), content);
}

// counts is a section of names with numbers, or nothing when there are none.
function counts(title, entries, bad) {
  if (entries.length === 0) return null;
  const rows = entries.map(([name, n]) => [bad ? el("span", { class: "bad-text" }, name) : name, count(n)]);
  return section(title, table([[""], ["count"]], rows));
}

function tiles(g) {
  const t = g.total;
  return el("dl", { class: "tiles" },
    tile("Ratio", ratio(t.ratio), t.raw_bytes > 0 ? `${bytes(t.raw_bytes)} → ${bytes(t.stored_bytes)}` : "no values yet"),
    tile("Saved", bytes(t.saved_bytes), t.raw_bytes > 0 ? percent(t.saved_bytes, t.raw_bytes) + " of values' bytes" : ""),
    tile("Values sealed", count(t.sealed), `of ${count(t.values)} covered`, `${count(t.opened)} opened`),
    tile("CPU", seconds(t.seal_cpu_seconds + t.open_cpu_seconds),
      `sealing ${seconds(t.seal_cpu_seconds)}`, `opening ${seconds(t.open_cpu_seconds)}`),
    tile("Added latency", micros(g.latency.p50_us), ...(g.latency.count > 0 ?
      ["median, at most", `99 %: ${micros(g.latency.p99_us)}`] : [])),
    tile("Connections", count(g.connections.open), `${count(g.connections.total)} in total`,
      g.connections.rejected > 0 ? `${count(g.connections.rejected)} refused` : ""));
}

function leftText(rule) {
  return rule.left_by.map((l) => `${l.reason} ${count(l.values)}`).join(", ");
}

// observedText says what a rule that only observes would have done.
function observedText(o) {
  return `would seal: ${bytes(o.raw_bytes)} → ${bytes(o.stored_bytes)} (${ratio(o.ratio)}) of ${count(o.values)} values, ` +
    `sealing ${seconds(o.seal_cpu_seconds)}, opening ${seconds(o.open_cpu_seconds)}`;
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
  if (g.rules.length === 0) return section("Rules", el("p", { class: "muted" }, "No rules: nothing is sealed, everything opens."));
  return section("Rules", table(
    [["rule"], ["sealed"], ["left"], ["before"], ["after"], ["ratio"], ["CPU"]], g.rules.map(ruleRow), true));
}

// packing says how far the gateway is with what the upstream holds already.
function packing(p) {
  if (!p) return null;
  const state = p.running ? `${p.estimate ? "estimating" : "packing"}, ${percent(p.done, 1)}` : p.wanted ? "waiting for the next pass" : "off, with the gateway or without rules";
  return section("Stored already", table([["state"], ["passes"], ["keys"], [p.estimate ? "would be sealed" : "sealed"], ["before"], ["after"], ["problems"]], [[
    [state, p.last_pass ? el("div", { class: "small" }, "last pass ended " + new Date(p.last_pass).toLocaleString()) : null,
      p.trouble ? el("div", { class: "small bad-text" }, p.trouble) : null,
      p.without_dictionary ? el("div", { class: "small" }, "without dictionaries, as the server has several users, or may have: share_samples: true allows one") : null],
    count(p.passes), count(p.keys), count(p.values), bytes(p.before_bytes), bytes(p.after_bytes), count(p.problems),
  ]], true));
}

// messages are the kinds of gRPC messages that are measured, in numbers.
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

// sizeBar shows what is left of the values' bytes.
function sizeBar(t) {
  if (t.raw_bytes === 0) return null;
  return el("div", null,
    el("progress", { max: t.raw_bytes, value: Math.min(t.stored_bytes, t.raw_bytes), "aria-label": "bytes after, of bytes before" }),
    el("p", { class: "small" }, `${percent(t.stored_bytes, t.raw_bytes)} of the bytes are left`));
}

function gatewayCard(g) {
  return el("section", { class: "card" },
    el("div", { class: "head" }, el("h2", null, g.name), el("span", { class: "muted" }, g.protocol),
      g.enabled ? null : el("span", { class: "badge" }, "off: opens only"),
      g.trouble ? el("span", { class: "badge", title: g.trouble }, g.trouble) : null,
      el("span", { class: "muted route" }, [g.listen, g.upstream].filter(Boolean).join(" → "))),
    report(g.report), tiles(g), sizeBar(g.total), rules(g), messages(g.messages), packing(g.pack),
    el("div", { class: "columns" },
      wire(g), opened(g),
      counts("Errors", byCount(g.errors), true),
      counts("Guarded commands", g.guarded.map((c) => [`${c.command}: ${c.outcome}`, c.count])),
      counts("Inflated", byCount(g.inflated))));
}

// budgetTile shows the bytes in flight of one direction, and who had to wait for some.
function budgetTile(label, b) {
  if (b.size_bytes === 0) return tile(label, "no bound");
  return tile(label, bytes(b.in_use_bytes), `of ${bytes(b.size_bytes)}`, `peak ${bytes(b.peak_bytes)}`,
    b.waiting > 0 ? `${count(b.waiting)} waiting now` : "",
    b.waits > 0 ? `${count(b.waits)} waits, ${seconds(b.wait_seconds)}` : "no waits",
    b.gave_up > 0 ? `${count(b.gave_up)} gave up` : "");
}

function processCard(s) {
  return el("section", { class: "card" }, el("h2", null, "Process"),
    el("dl", { class: "tiles" },
      tile("Up", seconds(s.uptime_seconds)),
      budgetTile("Requests in flight", s.budget.request),
      budgetTile("Replies in flight", s.budget.reply),
      s.codec ? tile("Codecs at work", count(s.codec.in_flight), `of ${count(s.codec.limit)}`) : null),
    s.dictionaries.length === 0 ? null : section("Dictionaries", table(
      [["name"], ["number"], ["size"], ["promised"], ["observed"]], s.dictionaries.map(dictionaryRow))),
    s.learning.length === 0 ? null : section("Dictionaries to come", table(
      [["rule"], ["state"], ["sampled"]], s.learning.map(learningRow))));
}

// learningRow says how far a rule is from its dictionary.
function learningRow(l) {
  const state = l.step ? `training: step ${l.step} of ${l.steps}, ${l.trying}`
    : l.refused ? "none was worth it so far" : "collecting values";
  const kind = l.method ? el("div", { class: "small" }, `${l.method}, ${l.direction}`) : null;
  return [[`${l.gateway}: ${l.rule}`, kind], state, `${count(l.samples)} of ${count(l.wanted)}`];
}

// dictionaryRow has the ratios of those that gateways made themselves.
function dictionaryRow(d) {
  const name = d.name || (d.rule ? `${d.gateway}: ${d.rule} (auto)` : "(from a store)");
  return [name, d.number, bytes(d.bytes), ratio(d.promised ?? 0), ratio(d.observed ?? 0)];
}

function show(status) {
  const cards = status.gateways.map(gatewayCard);
  if (cards.length === 0) cards.push(el("p", { class: "note" }, "No gateways are configured."));
  main.replaceChildren(...cards, processCard(status));
  main.classList.remove("stale");
  const amiss = status.ready ? status.degraded : [status.not_ready];
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

document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
run();
