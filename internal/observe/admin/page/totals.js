// The sums over all gateways, and their price.
import { el, figure, table, tile } from "./dom.js";
import { bytes, cores, count, micros, money, percent, perSecond, rate, ratio, seconds } from "./format.js";
import { total } from "./rates.js";

// added sums up the counters of all gateways.
function added(gateways) {
  const t = { raw: 0, stored: 0, sealCPU: 0, openCPU: 0, open: 0 };
  for (const g of gateways) {
    t.raw += g.total.raw_bytes;
    t.stored += g.total.stored_bytes;
    t.sealCPU += g.total.seal_cpu_seconds;
    t.openCPU += g.total.open_cpu_seconds;
    t.open += g.connections.open;
  }
  return t;
}

// totals returns the tiles with the sums.
export function totals(status, rates) {
  const now = total(rates), t = added(status.gateways), saved = t.raw - t.stored;
  return el("dl", { class: "tiles sums" },
    tile(saved < 0 ? "Bytes lost" : "Bytes saved", figure("saved_bytes", saved, bytes(Math.abs(saved))),
      t.raw > 0 ? [figure("raw_bytes", t.raw, bytes(t.raw)), " → ", figure("stored_bytes", t.stored, bytes(t.stored))] : "no values yet",
      t.raw > 0 ? `${percent(Math.abs(saved), t.raw)} ${saved < 0 ? "more" : "less"}` : ""),
    tile("Ratio", figure("ratio", t.stored > 0 ? t.raw / t.stored : 0, ratio(t.stored > 0 ? t.raw / t.stored : 0)),
      now.before > 0 ? `${ratio(now.after > 0 ? now.before / now.after : 0)} now` : rates ? "no values just now" : "measuring",
      now.before > 0 ? `${now.before < now.after ? "losing" : "saving"} ${perSecond(Math.abs(now.before - now.after))}` : ""),
    tile("CPU spent", figure("cpu_seconds", t.sealCPU + t.openCPU, seconds(t.sealCPU + t.openCPU)),
      `${cores(now.cpu)} cores now`, `in ${seconds(status.uptime_seconds)}`),
    tile("Latency added", micros(now.p50), ...(now.p99 > 0 ? ["median, at most", `99 %: ${micros(now.p99)}`] : ["no exchanges just now"])),
    memoryTile(status), ...moneyTiles(status.money),
    tile("Clients", count(t.open), `${rate(now.exchanges)} exchanges/s`));
}

function memoryTile(status) {
  const { request, reply } = status.budget, memory = status.memory_bytes;
  const flight = `${bytes(request.in_use_bytes + reply.in_use_bytes)} of values in flight`;
  if (!memory) return tile("Values in flight", bytes(request.in_use_bytes + reply.in_use_bytes), request.size_bytes > 0 ? `of ${bytes(request.size_bytes + reply.size_bytes)}` : "");
  return tile("Memory", figure("memory_bytes", memory, bytes(memory)), flight, request.size_bytes > 0 ? `of at most ${bytes(request.size_bytes + reply.size_bytes)}` : "");
}

const dollars = (name, d) => el("span", d < 0 ? { class: "bad-text" } : null, figure(name, d, money(d)));

function moneyTiles(m) {
  if (!m) return [];
  return [
    tile(m.so_far < 0 ? "Cost so far" : "Money saved so far", dollars("money_so_far", m.so_far), `traffic ${money(m.traffic_so_far)}`, `CPU ${money(-m.cpu_so_far)}`),
    tile("A month at this rate", dollars("money_month", m.month), m.month < 0 ? "costs more than it saves" : "", `as in the last ${seconds(Math.round(m.over_seconds))}`, m.assumed ? "prices assumed" : ""),
  ];
}

// prices lists the prices used to count money.
export function prices(m) {
  if (!m?.prices?.length) return null;
  return el("details", { class: "more", "data-key": "prices", id: "prices" }, el("summary", null, "How the money is counted"),
    el("p", { class: "small" }, `The saving is traffic between zones: ${m.crossing}. The cost is the CPU time of compressing and decompressing. `,
      `A month at this rate: traffic ${money(m.traffic_month)}, CPU ${money(-m.cpu_month)}. `,
      m.assumed ? el("strong", null, `Assumed: the configuration has no prices, so these are list prices of ${m.cloud}. Add prices: {cloud: …, zones: …} or {cross_zone: 100%} to it.`) : ""),
    table("Prices used to count the money", [["price"], ["$"], ["for", true], ["source", true], ["as of", true]],
      m.prices.map((p) => [p.name, String(p.price), p.unit, source(p.source), p.date]), true));
}

const source = (text) => /^https:\/\//.test(text) ? el("a", { href: text, rel: "noreferrer" }, text) : text;
