// Queries /api/history, and adds up its series.

export const ranges = {
  "1h": { label: "1 h", words: "last hour", span: 3600, step: 10, stepWords: "10 s", every: 10, rows: 300 },
  "24h": { label: "24 h", words: "last 24 hours", span: 86400, step: 300, stepWords: "5 min", every: 60, rows: 3600 },
  "7d": { label: "7 d", words: "last 7 days", span: 7 * 86400, step: 1800, stepWords: "30 min", every: 300, rows: 86400 },
  "90d": { label: "90 d", words: "last 90 days", span: 90 * 86400, step: 21600, stepWords: "6 h", every: 600, rows: 7 * 86400 },
};

// ask returns the answer, or null if the process has no history.
async function ask(series, from, to, step, gateway) {
  const query = new URLSearchParams({ series: series.join(","), from, to, step: step + "s" });
  if (gateway) query.set("gateway", gateway);
  const answer = await fetch("api/history?" + query, { signal: AbortSignal.timeout(15000) });
  if (answer.status === 404) return null;
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

// sums adds up series step by step. A step without samples is null.
function sums(lines, steps) {
  const sum = new Array(steps).fill(null);
  for (const line of lines) {
    line.values.forEach((v, i) => { if (v !== null) sum[i] = (sum[i] ?? 0) + v; });
  }
  return sum;
}

// The series with the bytes before compression (full) and after (sent). Series of decompressed values count only for stores.
const full = ["raw_bytes", "opened_raw_bytes"], sent = ["stored_bytes", "opened_stored_bytes"];
const counts = (stores) => (line) => !line.name.startsWith("opened_") || stores.has(line.gateway);

// storesOf returns the names of the gateways whose upstream stores compressed values, so that reads save bytes, too.
export const storesOf = (status) => new Set(status.gateways.filter((g) => g.protocol === "redis" || g.protocol === "tarantool").map((g) => g.name));

// pastOf queries a range. It returns times in seconds, and the counts of each step.
export async function pastOf(range, gateway, stores) {
  const { span, step } = ranges[range];
  const to = Math.floor(Date.now() / 1000 / step) * step, from = to - span;
  const groups = [full, sent, ["seal_cpu_us"], ["open_cpu_us"], ["errors"]];
  const doc = await ask(groups.flat(), from, to, step, gateway);
  if (!doc) return null;
  const times = Array.from({ length: span / step }, (_, i) => from + i * step);
  const of = (names) => sums(doc.series.filter((s) => names.includes(s.name)).filter(counts(stores)), times.length);
  const [before, after, seal, open, errors] = groups.map(of);
  return { range, from, to, step, times, before, after, seal, open, errors, oldest: doc.oldest ? Date.parse(doc.oldest) / 1000 : null, kept: Boolean(doc.path) };
}

// savings returns the bytes saved per second in the last five minutes: lists of [time, bytes a second] by gateway.
export async function savings(stores) {
  const to = Math.floor(Date.now() / 10000) * 10, step = 10, found = new Map();
  const doc = await ask([...full, ...sent], to - 300, to, step);
  for (const line of (doc?.series ?? []).filter(counts(stores))) {
    if (!found.has(line.gateway)) found.set(line.gateway, line.values.map((_, i) => [(to - 300 + (i + 1) * step) * 1000, null]));
    const points = found.get(line.gateway), sign = full.includes(line.name) ? 1 : -1;
    line.values.forEach((v, i) => { if (v !== null) points[i][1] += sign * v / step; });
  }
  for (const [name, points] of found) found.set(name, points.filter((p) => p[1] !== null));
  return found;
}
