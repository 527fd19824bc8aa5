// Formats numbers for people.

const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export const count = (n) => n < 1e5 ? plain.format(n) : scaled(n, 1000, ["", " k", " M", " G", " T"]);

// scaled formats with three digits, as the command line does (internal/output/terminal/numbers.go).
function scaled(n, base, units) {
  let i = 0;
  while (i < units.length - 1 && Math.abs(n) >= 999.5) { n /= base; i++; }
  const digits = i === 0 || Math.abs(n) >= 99.95 ? 0 : Math.abs(n) >= 9.995 ? 1 : 2;
  return n.toFixed(digits) + units[i];
}

export const bytes = (n) => scaled(n, 1024, [" B", " KiB", " MiB", " GiB", " TiB", " PiB"]);
export const perSecond = (n) => bytes(n) + "/s";
// money formats dollars; less than a tenth of a cent is $0.
export function money(d) {
  const size = Math.abs(d), sign = d < 0 ? "−$" : "$";
  if (size < 0.0005) return "$0";
  if (size >= 1e5) return sign + scaled(size, 1000, ["", " k", " M", " G"]);
  return sign + (size >= 999.995 ? plain.format(size) : size.toFixed(size < 0.0995 ? 3 : 2));
}
export const rate = (n) => n === 0 ? "0" : n < 10 ? n.toFixed(1) : count(n);
export const ratio = (r) => !r ? "–" : r.toFixed(r < 10 ? 2 : 1) + "×";
export const micros = (us) => !us ? "–" : us < 1000 ? scaled(us, 1e9, [" µs"]) : scaled(us / 1000, 1e9, [" ms"]);
export const percent = (part, whole) => whole === 0 ? "–" : (100 * part / whole).toFixed(1) + " %";
export const cores = (c) => c < 0.005 ? (c > 0 ? "<0.01" : "0") : c.toFixed(2);

export function seconds(s) {
  if (s === 0) return "0 s";
  if (s < 1) return scaled(s * 1000, 1e9, [" ms"]);
  if (s < 120) return s.toFixed(s < 10 ? 2 : 1) + " s";
  const units = [["d", 86400], ["h", 3600], ["min", 60]];
  const at = units.findIndex(([, size]) => s >= size);
  const [unit, size] = units[at];
  const rest = at + 1 < units.length ? Math.floor((s % size) / units[at + 1][1]) : 0;
  return `${Math.floor(s / size)} ${unit}` + (rest > 0 ? ` ${rest} ${units[at + 1][0]}` : "");
}
