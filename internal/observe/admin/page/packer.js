// The progress of background packing: compressing what the upstream already holds.
import { el, section, table } from "./dom.js";
import { bytes, count, percent } from "./format.js";

const small = (...content) => el("div", { class: "small" }, ...content);
const when = (text) => new Date(text).toLocaleString();

function stateText(p) {
  if (p.paused) return p.paused_at ? "paused since " + when(p.paused_at) : "paused";
  if (p.running) return `${p.estimate ? "estimating" : "packing"}, ${percent(p.done, 1)}`;
  return p.wanted ? "waiting for the next pass" : "off: the gateway is off, or has no rules";
}

// buttons returns the button that pauses or resumes packing, and the region that shows the result.
function buttons(status, g) {
  const name = g.pack.paused ? "pack-resume" : "pack-pause";
  if (g.pack.paused === undefined || !status.actions?.includes(name)) return null;
  return el("p", { class: "acts", "data-acts": "", "data-key": "acts" },
    el("button", { type: "button", "data-action": name, "data-of": g.name }, g.pack.paused ? "Resume packing" : "Pause packing"),
    el("span", { class: "small", role: "status", "data-said": "", "data-keep": "" }));
}

export function packing(status, g) {
  const p = g.pack;
  if (!p) return null;
  const cells = [
    [stateText(p), p.running || p.paused && p.done > 0 ? el("progress", { max: 1, value: p.done, "aria-label": "share of the pass" }) : null,
      p.last_pass ? small("last pass ended " + when(p.last_pass)) : null,
      p.trouble ? el("div", { class: "small bad-text" }, p.trouble) : null,
      p.without_dictionary ? small("some without a dictionary, because several users may write them; share_samples: true allows one") : null],
    count(p.passes), count(p.keys), count(p.values), bytes(p.before_bytes), bytes(p.after_bytes), count(p.problems),
  ];
  return section("Stored already", table("Values already stored at " + g.name,
    [["state"], ["passes"], ["keys"], [p.estimate ? "would be compressed" : "compressed"], ["before"], ["after"], ["problems"]], [cells], true), buttons(status, g));
}
