// The card with what belongs to the process rather than to one gateway.
import { el, tile } from "./dom.js";
import { otherDictionaries } from "./dictionaries.js";
import { bytes, count, seconds } from "./format.js";

// budgetTile shows the bytes in flight in one direction, and how often messages had to wait for the budget.
function budgetTile(label, b) {
  if (b.size_bytes === 0) return tile(label, "no limit");
  return tile(label, bytes(b.in_use_bytes), `of ${bytes(b.size_bytes)}`, `peak ${bytes(b.peak_bytes)}`,
    b.waiting > 0 ? `${count(b.waiting)} waiting now` : "",
    b.waits > 0 ? `${count(b.waits)} waits, ${seconds(b.wait_seconds)}` : "no waits",
    b.gave_up > 0 ? `${count(b.gave_up)} gave up` : "");
}

export function processCard(s) {
  return [
    el("dl", { class: "tiles" },
      tile("Up", seconds(s.uptime_seconds)),
      budgetTile("Requests in flight", s.budget.request),
      budgetTile("Replies in flight", s.budget.reply),
      s.codec ? tile("Codecs in use", count(s.codec.in_flight), `of ${count(s.codec.limit)}`) : null),
    otherDictionaries(s),
  ];
}
