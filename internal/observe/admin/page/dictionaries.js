// Dictionaries: what they gain, whether values still resemble those they were trained on, and which are in training.
import { el, section, table } from "./dom.js";
import { bytes, count, ratio } from "./format.js";

const small = (...content) => el("div", { class: "small" }, ...content);

// drifted reports whether the last values gain less than seven tenths of what training promised.
const drifted = (d) => d.observed > 0 && d.observed < 0.7 * d.promised;

function drift(d) {
  if (!d.promised || !d.observed) return "–";
  const change = Math.round(100 * (d.observed / d.promised - 1));
  const text = change < 0 ? `−${-change} %` : `+${change} %`;
  return drifted(d) ? el("span", { class: "bad-text" }, text + ", values have changed") : text;
}

const named = (d) => d.name || d.rule || "(from a store)";

function dictionaryTable(caption, list) {
  return table(caption, [["dictionary"], ["version", true], ["size"], ["promised"], ["gain now"], ["drift"]],
    list.map((d) => [[el("strong", null, named(d)), d.rule ? small("trained for this rule") : null], d.number, bytes(d.bytes), ratio(d.promised ?? 0), ratio(d.observed ?? 0), drift(d)]), true);
}

// progress shows how far the training for a rule is.
function progress(l) {
  if (l.waiting) return ["waiting for another training to end", el("progress", { "aria-label": `training for ${l.rule}, which has not begun` })];
  if (l.step) return [`training: step ${l.step} of ${l.steps}, ${l.trying}`, el("progress", { max: l.steps, value: l.step, "aria-label": `training for ${l.rule}` })];
  const share = l.wanted > 0 ? Math.min(l.samples / l.wanted, 1) : 0;
  return [l.refused ? "no useful dictionary so far" : "collecting values", el("progress", { max: 1, value: share, "aria-label": `samples for ${l.rule}` })];
}

function learningTable(caption, list) {
  return table(caption, [["in training"], ["state", true], ["samples"]], list.map((l) => [
    [el("strong", null, l.rule)], progress(l),
    l.samples < l.wanted ? `${count(l.samples)} of ${count(l.wanted)}` : `${count(l.samples)}, enough`]), true);
}

// dictionaries lists those of one gateway.
export function dictionaries(status, g) {
  const inUse = status.dictionaries.filter((d) => d.gateway === g.name), toCome = status.learning.filter((l) => l.gateway === g.name);
  if (inUse.length + toCome.length === 0) return null;
  return section("Dictionaries", inUse.length > 0 ? dictionaryTable("Dictionaries of " + g.name, inUse) : null,
    toCome.length > 0 ? learningTable("Dictionaries in training at " + g.name, toCome) : null);
}

// otherDictionaries lists those that belong to no gateway.
export function otherDictionaries(status) {
  const names = new Set(status.gateways.map((g) => g.name));
  const list = status.dictionaries.filter((d) => !names.has(d.gateway));
  return list.length > 0 ? dictionaryTable("Dictionaries that belong to no gateway", list) : null;
}
