// The card with graphs over time, with a summary in words and a table.
import { Chart } from "./chart.js";
import { el, table } from "./dom.js";
import { bytes, cores, count, percent, perSecond } from "./format.js";
import { pastOf, ranges } from "./query.js";
import { patch } from "./patch.js";

const upward = (_, least, most) => [0, Math.max(most ?? 0, 1e-9) * 1.08]; // from zero: otherwise a quiet hour would look busy
const binary = Array.from({ length: 50 }, (_, i) => 2 ** i);
const share = (v) => v.toFixed(v < 10 && v > -10 && v !== 0 ? 1 : 0) + " %";

const charts = {
  traffic: new Chart("Traffic", [{ name: "before", colour: "second" }, { name: "after", colour: "accent", fill: true }], { format: perSecond, range: upward, incrs: binary }),
  saved: new Chart("Saved", [{ name: "share of the bytes", colour: "accent", fill: true }], { format: share, range: (_, least) => [Math.min(least ?? 0, 0), 100] }),
  cpu: new Chart("CPU", [{ name: "compressing", colour: "accent" }, { name: "decompressing", colour: "second" }], { format: (v) => v === 0 ? "0" : v < 0.1 ? v.toFixed(4).replace(/0+$/, "") : v.toFixed(2), range: upward }),
  errors: new Chart("Errors", [{ name: "errors", colour: "bad", bars: true, fill: true }], { format: (v) => Number.isInteger(v) || v >= 10 ? count(v) : v.toFixed(1), range: (_, least, most) => [0, Math.max(most ?? 0, 1)] }),
};

const againMs = 10000; // after a failed request: the range's own interval may be ten minutes

const moment = (time) => new Date(time * 1000).toLocaleString([], { dateStyle: "medium", timeStyle: "short", hour12: false });
const per = (values, by) => values.map((v) => v === null ? null : v / by);
const add = (values) => values.reduce((sum, v) => sum + (v ?? 0), 0);

// History requests the range at first, and then whenever the range has new samples, while the card is visible.
export class History {
  constructor(card) {
    this.card = card;
    this.range = "1h";
    this.due = 0;
    this.buttons = Object.entries(ranges).map(([name, { label, words }]) => el("button", { type: "button", "data-range": name, "aria-label": `${label}: ${words}` }, label));
    this.select = el("select", { "aria-label": "gateway" });
    this.words = el("p", { class: "small words" });
    this.body = el("div", { "data-keep": "" });
    this.more = el("details", { class: "more", id: "history-table" }, el("summary", null, "The same as a table"), this.body);
    card.append(el("div", { class: "choices" }, el("div", { class: "ranges", role: "group", "aria-label": "Time range" }, this.buttons), this.select),
      el("div", { class: "charts" }, Object.values(charts).map((c) => c.node)), this.words, this.more);
    for (const button of this.buttons) button.addEventListener("click", () => this.choose(button.dataset.range));
    this.select.addEventListener("change", () => this.choose(this.range));
    this.more.addEventListener("toggle", () => this.tabulate());
    this.press();
    new IntersectionObserver((seen) => { this.seen = seen.at(-1).isIntersecting; this.tick(); }).observe(card);
    setInterval(() => this.tick(), 1000);
  }

  // gateways sets the names to choose from. stores has those whose upstream is a store (see query.js).
  gateways(names, stores) {
    this.stores = stores;
    const options = names.length > 1 ? ["", ...names] : [];
    this.select.hidden = names.length < 2;
    patch(this.select, options.map((name) => el("option", { value: name, "data-key": "of " + name }, name || "all gateways")));
  }

  choose(range) {
    this.range = range;
    this.due = 0;
    this.press();
    this.tick();
  }

  press() {
    for (const button of this.buttons) button.setAttribute("aria-pressed", String(button.dataset.range === this.range));
  }

  async tick() {
    if (document.hidden || this.past && !this.seen || Date.now() < this.due || this.gone) return;
    const range = this.range, gateway = this.select.value;
    this.due = Date.now() + 1000 * ranges[range].every;
    try {
      const past = await pastOf(range, gateway, this.stores);
      if (!past) this.none();
      else if (range === this.range && gateway === this.select.value) this.show(past);
    } catch {
      patch(this.words, "No answer about the history.");
      this.due = Math.min(this.due, Date.now() + againMs);
    }
  }

  // none hides the card: an older gateway, or another kind of process, has no history.
  none() {
    this.gone = true;
    this.card.hidden = true;
  }

  show(past) {
    this.past = past;
    const { times, step, from, to } = past, span = [from, to], words = ranges[past.range].words;
    const before = per(past.before, step), after = per(past.after, step);
    const saved = past.before.map((b, i) => b > 0 ? 100 * (1 - past.after[i] / b) : null);
    const seal = per(past.seal, 1e6 * step), open = per(past.open, 1e6 * step);
    const t = sumsOf(past, 0, times.length);
    charts.traffic.show("Traffic", times, [before, after], span, `Traffic in the ${words}: ${bytes(t.before)} before, ${bytes(t.after)} after.`);
    charts.saved.show("Saved", times, [saved], span, `Saved in the ${words}: ${t.saved} of the bytes.`);
    charts.cpu.show("CPU, cores", times, [seal, open], span, `CPU in the ${words}: ${cores(t.cores)} cores on average.`);
    charts.errors.show(`Errors in ${ranges[past.range].stepWords}`, times, [past.errors], span, `Errors in the ${words}: ${count(t.errors)}.`);
    patch(this.words, summary(past, before));
    this.tabulate();
  }

  tabulate() {
    if (!this.more.open || !this.past) return;
    patch(this.body, el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "History as a table" }, historyTable(this.past)));
  }
}

function sumsOf(past, begin, end) {
  const of = (name) => add(past[name].slice(begin, end));
  const before = of("before"), after = of("after"), covered = past.before.slice(begin, end).filter((v) => v !== null).length * past.step;
  return { before, after, covered, saved: percent(before - after, before), cores: covered > 0 ? (of("seal") + of("open")) / 1e6 / covered : 0, errors: of("errors") };
}

function summary(past, before) {
  const t = sumsOf(past, 0, past.times.length), most = Math.max(...before.map((v) => v ?? 0));
  if (t.covered === 0) return "No samples yet: the first comes within ten seconds.";
  const busiest = moment(past.times[before.indexOf(most)]);
  const since = past.oldest > past.from ? ` Samples go back to ${moment(past.oldest)}${past.kept ? "" : ", in memory: set history.path to keep them across restarts"}.` : "";
  return `In the ${ranges[past.range].words} ${bytes(t.before)} became ${bytes(t.after)}: ${t.saved} saved. ` + (most > 0 ? `Traffic was highest at ${busiest} with ${perSecond(most)}. ` : "") +
    `Compressing and decompressing took ${cores(t.cores)} cores on average. ${t.errors > 0 ? count(Math.round(t.errors)) : "No"} errors.` + since;
}

function historyTable(past) {
  const { words, rows: seconds } = ranges[past.range], size = seconds / past.step, list = [];
  for (let begin = past.times.length; begin > 0; begin -= size) {
    const first = Math.max(begin - size, 0), t = sumsOf(past, first, begin);
    const time = new Date(past.times[first] * 1000).toLocaleString([], { month: "short", day: "numeric", ...(seconds < 86400 ? { hour: "2-digit", minute: "2-digit", hour12: false } : {}) });
    list.push(t.covered > 0 ? [time, bytes(t.before), bytes(t.after), t.saved, cores(t.cores), count(Math.round(t.errors))] : [time, "no samples", "", "", "", ""]);
  }
  return table(`History of the ${words}, newest first`, [["from"], ["before"], ["after"], ["saved"], ["CPU, cores"], ["errors"]], list);
}
