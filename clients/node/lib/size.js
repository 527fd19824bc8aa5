// What a Redis server (7.x, jemalloc, 64 bits) allocates for a value: MEMORY USAGE, less what does not depend on the value.

const LISTPACK_MAX = 64; // hash-max-listpack-value

/** Bytes before and after, where sealed bytes stand in place of raw ones. */
export function cost(kind, raw, sealed) {
  const of = measure(kind, Math.max(raw, sealed));
  return [of(raw), of(sealed)];
}

function measure(kind, longest) {
  if (kind === 'stream' || (kind === 'hash' && longest <= LISTPACK_MAX)) return listpack;
  return kind === 'hash' ? sds : string;
}

/** jemalloc's size class: multiples of 16 up to 128, then four steps a doubling. */
function sizeClass(n) {
  if (n <= 8) return 8;
  if (n <= 128) return Math.ceil(n / 16) * 16;
  const step = 2 ** (32 - Math.clz32(n - 1) - 3);
  return Math.ceil(n / step) * step;
}

function sds(n) {
  const header = n < 1 << 5 ? 1 : n < 1 << 8 ? 3 : n < 1 << 16 ? 5 : 9;
  return sizeClass(header + n + 1);
}

function string(n) {
  return n <= 44 ? sizeClass(16 + 3 + n + 1) : sizeClass(16) + sds(n);
}

function listpack(n) {
  const entry = n + (n < 1 << 6 ? 1 : n < 1 << 12 ? 2 : 5);
  const width = [127, (1 << 14) - 2, (1 << 21) - 2, (1 << 28) - 2].findIndex((end) => entry <= end);
  return entry + (width < 0 ? 5 : width + 1);
}
