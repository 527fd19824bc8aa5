// A sparkline of the bytes saved per second over the last five minutes.
import { svg } from "./dom.js";
import { perSecond } from "./format.js";

const spanMs = 5 * 60 * 1000;
const wide = 120, high = 24;

// Past holds the savings of one gateway: at first from its history, then a point for each status.
export class Past {
  constructor() {
    this.points = []; // [time, bytes a second], by time
  }

  add(time, saved) {
    this.points.push([time, saved]);
    while (this.points[0][0] < time - spanMs) this.points.shift();
  }

  // before inserts older points.
  before(points) {
    const first = this.points[0]?.[0] ?? Infinity;
    this.points = [...points.filter(([time]) => time < first), ...this.points];
  }

  // draw draws losses below the line.
  draw() {
    if (this.points.length < 2) return "";
    const saved = this.points.map((p) => p[1]), now = this.points.at(-1)[0];
    const most = Math.max(...saved, 1), least = Math.min(...saved, 0);
    const x = (time) => wide - (now - time) * wide / spanMs; // the present is at the right
    const y = (v) => high - 1 - (v - least) / (most - least) * (high - 2);
    const points = this.points.map(([time, v]) => `${x(time).toFixed(1)},${y(v).toFixed(1)}`).join(" ");
    return svg("svg", { class: "sparkline", preserveAspectRatio: "none", viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": `saving ${perSecond(saved.at(-1))}, at most ${perSecond(most)} in five minutes` },
      svg("line", { x1: 0, x2: wide, y1: y(0), y2: y(0) }), svg("polyline", { points }));
  }
}
