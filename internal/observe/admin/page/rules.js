// The rules of a gateway: what they compressed, and what they left uncompressed.
import { el, section, table } from "./dom.js";
import { bytes, count, ratio, seconds } from "./format.js";

const small = (...content) => el("div", { class: "small" }, ...content);

function leftText(rule) {
  return rule.left_by.map((l) => `${l.reason} ${count(l.values)}`).join(", ");
}

// observedText describes what a rule that only observes would have saved.
function observedText(o) {
  return `would compress: ${bytes(o.raw_bytes)} → ${bytes(o.stored_bytes)} (${ratio(o.ratio)}) of ${count(o.values)} values, ` +
    `compressing ${seconds(o.seal_cpu_seconds)}, decompressing ${seconds(o.open_cpu_seconds)}`;
}

// question returns the panel "What if", which whatif.js fills while it is open.
function question(g, r) {
  return el("details", { class: "more whatif", "data-key": "whatif", "data-of": g.name, "data-rule": r.rule },
    el("summary", null, "What if", el("span", { class: "sr" }, ` ${r.rule} had another setting`), "…"), el("div", { class: "panel", "data-keep": "" }));
}

function ruleRow(g, r, asks) {
  const name = el("div", { class: r.active ? "" : "gone" }, el("strong", null, r.rule), r.active ? "" : " (removed)");
  const about = [r.match, r.setting].filter(Boolean).join(" → ");
  const left = leftText(r);
  const cells = [
    [name, about ? small(about) : null, r.instead_of ? el("div", { class: "small warn-text" }, `until the next reload, instead of ${r.instead_of}`) : null, r.observed ? small(observedText(r.observed)) : null, left ? small("left: " + left) : null],
    count(r.sealed), count(r.left), bytes(r.raw_bytes), bytes(r.stored_bytes),
    el("strong", null, ratio(r.ratio)), seconds(r.seal_cpu_seconds),
  ];
  cells.key = "rule " + r.rule;
  cells.below = asks && r.active ? question(g, r) : null;
  return cells;
}

export function rules(g, asks) {
  if (g.rules.length === 0) return section("Rules", el("p", { class: "muted" }, "No rules: nothing is compressed; stored values stay readable."));
  return section("Rules", table("Rules of " + g.name,
    [["rule"], ["compressed"], ["left"], ["before"], ["after"], ["ratio"], ["CPU"]], g.rules.map((r) => ruleRow(g, r, asks)), true));
}
