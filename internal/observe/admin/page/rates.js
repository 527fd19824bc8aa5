// Current rates of gateways: the difference between two documents of /api/status.

// quantile returns the upper end, in µs, of the bucket with the quantile of what was counted between two documents; 0: nothing.
function quantile(was, is, q) {
  const earlier = new Map((was ?? []).map((b) => [b.up_to_us ?? 0, b.count]));
  const came = (is ?? []).map((b) => [b.up_to_us ?? 0, Math.max(b.count - (earlier.get(b.up_to_us ?? 0) ?? 0), 0)]);
  const total = came.reduce((sum, [, n]) => sum + n, 0);
  let seen = 0, end = 0;
  for (const [upTo, n] of came) {
    seen += n;
    end = Math.max(end, upTo);
    if (total > 0 && seen >= q * total) return end;
  }
  return 0;
}

const sum = (object) => Object.values(object).reduce((a, b) => a + b, 0);

// gatewayRates returns rates per second. Without an earlier document they are 0.
function gatewayRates(was, is, span) {
  const over = (a, b) => span > 0 && was ? Math.max(b - a, 0) / span : 0;
  const w = was ?? is;
  return {
    before: over(w.total.raw_bytes, is.total.raw_bytes),
    after: over(w.total.stored_bytes, is.total.stored_bytes),
    cpu: over(w.total.seal_cpu_seconds + w.total.open_cpu_seconds, is.total.seal_cpu_seconds + is.total.open_cpu_seconds),
    exchanges: over(w.latency.count, is.latency.count),
    errors: over(sum(w.errors), sum(is.errors)),
    p50: was ? quantile(w.latency.buckets, is.latency.buckets, 0.5) : 0,
    p99: was ? quantile(w.latency.buckets, is.latency.buckets, 0.99) : 0,
  };
}

// between returns rates by the gateway's name, or null at first and after a restart, when there is nothing to compare.
export function between(was, is) {
  if (!was || was.started_at !== is.started_at || is.uptime_seconds <= was.uptime_seconds) return null;
  const earlier = new Map(was.gateways.map((g) => [g.name, g]));
  return new Map(is.gateways.map((g) => [g.name, gatewayRates(earlier.get(g.name), g, is.uptime_seconds - was.uptime_seconds)]));
}

export function total(rates) {
  const t = { before: 0, after: 0, cpu: 0, exchanges: 0, errors: 0, p50: 0, p99: 0 };
  for (const r of rates?.values() ?? []) {
    for (const key of ["before", "after", "cpu", "exchanges", "errors"]) t[key] += r[key];
    t.p50 = Math.max(t.p50, r.p50); // of the slowest gateway
    t.p99 = Math.max(t.p99, r.p99);
  }
  return t;
}
