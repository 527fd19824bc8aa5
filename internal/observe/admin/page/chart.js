// One graph over time, drawn by uPlot in the page's colours, with its values as text beside its title.
import { el } from "./dom.js";

const { uPlot } = window;
const high = 150; // pixels
const style = getComputedStyle(document.documentElement);
const colour = (name) => () => style.getPropertyValue(name).trim();
const faint = (name) => () => style.getPropertyValue(name).trim() + "40";

// Chart draws lines as a figure. Lines are { name, colour, fill, bars }; kind has format (of a value), range (of the y axis) and incrs (of its ticks).
export class Chart {
  constructor(title, lines, kind) {
    this.lines = lines;
    this.kind = kind;
    this.values = lines.map(() => el("span"));
    const legend = lines.map((line, i) => el("span", { class: "line " + line.colour + (line.fill ? " filled" : "") }, line.name + " ", this.values[i]));
    this.name = el("span", { class: "title" }, title);
    this.box = el("div", { class: "plot", role: "img", "aria-label": title });
    this.node = el("figure", { class: "chart" }, el("figcaption", null, this.name, legend), this.box);
    this.span = [0, 1];
    new ResizeObserver(() => this.fit()).observe(this.box);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.plot?.redraw(false, true));
  }

  // show draws values by line; times are seconds, label is a sentence for screen readers.
  show(title, times, values, span, label) {
    this.span = span;
    this.data = [times, ...values];
    this.name.textContent = title;
    this.box.setAttribute("aria-label", label);
    if (this.plot) this.plot.setData(this.data);
    else this.fit();
    this.read();
  }

  fit() {
    const wide = this.box.clientWidth;
    if (!this.data || wide < 50) return;
    if (!this.plot) this.plot = new uPlot(this.options(wide), this.data, this.box);
    else if (this.plot.width !== wide) this.plot.setSize({ width: wide, height: high });
  }

  // read writes the values at the pointer, or else the last ones, into the legend.
  read() {
    const at = this.plot?.cursor.idx ?? null;
    this.lines.forEach((_, i) => {
      const values = this.data[i + 1];
      const value = at === null ? values.findLast((v) => v !== null) : values[at];
      this.values[i].textContent = value === null || value === undefined ? "–" : this.kind.format(value);
    });
  }

  options(width) {
    const axis = { stroke: colour("--soft"), font: "12px system-ui, sans-serif", grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
    return {
      width, height: high, padding: [8, 20, 0, 0], legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, sync: { key: "history" }, points: { size: 6 } },
      scales: { x: { range: () => this.span }, y: { range: this.kind.range } },
      axes: [{ ...axis, size: 32, gap: 9, space: 64, values: (_, splits) => splits.map((t) => this.time(t)) },
        { ...axis, size: 68, space: 32, values: (_, splits) => splits.map((v) => this.kind.format(v)), ...(this.kind.incrs ? { incrs: this.kind.incrs } : {}) }],
      series: [{}, ...this.lines.map((line) => ({
        stroke: colour("--" + line.colour), fill: line.fill ? faint("--" + line.colour) : undefined, width: 1.5, points: { show: false },
        paths: line.bars ? uPlot.paths.bars({ size: [0.9, 60] }) : undefined,
      }))],
      hooks: { setCursor: [() => this.read()] },
    };
  }

  time(t) {
    const date = new Date(t * 1000);
    if (this.span[1] - this.span[0] > 2 * 86400) return date.toLocaleDateString([], { day: "numeric", month: "short" });
    return date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false });
  }
}
