// Decoders of blocks that have no package everybody has: snappy, s2, minlz and lz4, in plain JavaScript.
//
// They are meant for reading what a gateway sealed with such a codec; what is written here is zstd. Each fills a
// buffer of the declared length, which was checked before, and reads and writes nothing outside.

import { Damaged } from './errors.js';

/** Bytes that are read in order; reading past their end is damage. */
export class Reader {
  constructor(bytes, at = 0) {
    this.bytes = bytes;
    this.at = at;
  }

  get ended() {
    return this.at >= this.bytes.length;
  }

  byte() {
    return this.little(1);
  }

  little(n) {
    const at = this.skip(n);
    return n === 0 ? 0 : this.bytes.readUIntLE(at, n);
  }

  /** Steps over n bytes and returns where they begin. */
  skip(n) {
    const at = this.at;
    if (n > this.bytes.length - at) throw new Damaged('cut off');
    this.at += n;
    return at;
  }

  uvarint() {
    let value = 0;
    for (let i = 0; i < 5; i++) {
      const c = this.byte();
      value += (c & 0x7f) * 2 ** (7 * i);
      if (c < 0x80) {
        if (i && c === 0) throw new Damaged('length is not canonical');
        return value;
      }
    }
    throw new Damaged('length is too long');
  }
}

/** What has been decoded, of the length that was declared. */
class Output {
  constructor(limit) {
    this.bytes = Buffer.allocUnsafe(limit);
    this.length = 0;
  }

  literals(input, n) {
    if (n > this.bytes.length - this.length) throw new Damaged('literals leave the block');
    const at = input.skip(n);
    input.bytes.copy(this.bytes, this.length, at, at + n);
    this.length += n;
  }

  /** Appends n bytes from offset bytes back; the two may overlap. */
  copy(offset, n) {
    if (!(offset > 0 && offset <= this.length) || n > this.bytes.length - this.length) throw new Damaged('copy leaves the block');
    const end = this.length + n;
    const start = this.length - offset;
    while (this.length < end) {
      const part = Math.min(this.length - start, end - this.length);
      this.bytes.copyWithin(this.length, start, start + part);
      this.length += part;
    }
  }

  get value() {
    return this.bytes.subarray(0, this.length);
  }
}

export function lz4(payload, limit) {
  const input = new Reader(payload);
  const out = new Output(limit);
  while (!input.ended) {
    const token = input.byte();
    out.literals(input, lz4Length(input, token >> 4));
    if (input.ended) break; // the last sequence is literals only
    const offset = input.little(2);
    out.copy(offset, lz4Length(input, token & 15) + 4);
  }
  return out.value;
}

function lz4Length(input, n) {
  if (n !== 15) return n;
  for (;;) {
    const c = input.byte();
    n += c;
    if (c !== 255) return n;
  }
}

export function snappy(payload, limit, repeats) {
  const input = new Reader(payload);
  if (input.uvarint() !== limit) throw new Damaged('lengths differ');
  const out = new Output(limit);
  let offset = 0;
  while (!input.ended) {
    const tag = input.byte();
    let n = tag >> 2;
    if ((tag & 3) === 0) {
      out.literals(input, (n < 60 ? n : input.little(n - 59)) + 1);
      continue;
    }
    if ((tag & 3) === 1) {
      const low = ((tag >> 5) << 8) | input.byte();
      const repeated = low === 0 && repeats;
      if (!repeated) offset = low;
      n = repeated ? repeatLength(input, n & 7) : (n & 7) + 4;
    } else {
      offset = input.little((tag & 3) === 2 ? 2 : 4);
      n++;
    }
    out.copy(offset, n);
  }
  return out.value;
}

/** The length of S2's repeat of the last offset. */
function repeatLength(input, n) {
  if (n < 5) return 4 + n;
  const extra = n - 4;
  return [8, 260, 65540][extra - 1] + input.little(extra);
}

// Implements the block format of the MinLZ specification v1.0.

export function minlz(payload, limit) {
  const input = new Reader(payload);
  if (input.byte() !== 0) throw new Damaged('not a MinLZ block');
  if (input.ended) return Buffer.alloc(0);
  const n = input.uvarint();
  if (n === 0) return payload.subarray(input.at);
  if (n !== limit || n > 8 << 20) throw new Damaged('lengths differ');
  const out = new Output(limit);
  let offset = 1;
  while (!input.ended) {
    const step = minlzStep(input, input.byte(), offset);
    out.literals(input, step.literals);
    if (step.n) out.copy(step.offset, step.n);
    offset = step.offset;
  }
  return out.value;
}

/** One operation: so many literals, then a copy of n bytes from offset back. */
function minlzStep(input, tag, offset) {
  switch (tag & 3) {
    case 0:
      return minlzLiteralsOrRepeat(input, tag, offset);
    case 1:
      return minlzShortCopy(input, tag);
    case 2:
      offset = 64 + input.little(2);
      return { literals: 0, n: minlzCopyLength(input, tag >> 2), offset };
    default:
      return minlzFused(input, tag);
  }
}

function minlzLiteralsOrRepeat(input, tag, offset) {
  const n = minlzLength(input, tag >> 3, 28, 30) + (tag >> 3 < 29 ? 1 : 0);
  return tag & 4 ? { literals: 0, n, offset } : { literals: n, n: 0, offset };
}

function minlzShortCopy(input, tag) {
  const offset = 1 + ((tag >> 6) | (input.byte() << 2));
  const n = 4 + ((tag >> 2) & 15);
  return { literals: 0, n: n === 19 ? 18 + input.byte() : n, offset };
}

/** Copies that up to four literals precede. */
function minlzFused(input, tag) {
  if (!(tag & 4)) return { literals: 1 + ((tag >> 3) & 3), n: 4 + (tag >> 5), offset: 64 + input.little(2) };
  const word = tag + input.little(3) * 256;
  return { literals: (word >>> 3) & 3, n: minlzCopyLength(input, (word >>> 5) & 63), offset: 65536 + (word >>> 11) };
}

function minlzCopyLength(input, value) {
  return minlzLength(input, value, 60, 64) + (value <= 60 ? 4 : 0);
}

/** Values up to last stand for themselves, the next three for base plus 1, 2 or 3 more bytes. */
function minlzLength(input, value, last, base) {
  return value <= last ? value : base + input.little(value - last);
}
