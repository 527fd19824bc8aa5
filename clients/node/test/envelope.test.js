// Opens every vector of envelope/testdata/vectors, and refuses those that must be refused.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import * as cinch from '../lib/index.js';

const VECTORS = new URL('../../../envelope/testdata/vectors/', import.meta.url);
const read = (name) => readFileSync(new URL(name, VECTORS));
const vectors = JSON.parse(read('index.json'));
const CODECS = 8;
const CLASSES = { 'unknown codec': cinch.UnknownCodec, 'dictionary missing': cinch.DictionaryMissing, 'too large': cinch.TooLarge };

/** The dictionaries of a vector. */
function given(v) {
  if (!v.dictionary) return new Map();
  const content = read(v.dictionary);
  return new Map([[cinch.dictionaryNumber(content), content]]);
}

/** The error's class itself, not one derived from it. */
const exactly = (kind) => (e) => e.constructor === kind;

test('vectors', () => {
  assert.ok(vectors.length > 100);
  for (const v of vectors) {
    const stored = read(v.stored);
    if (v.error === 'unknown codec' && (stored[3] & 15) < CODECS) continue; // frozen for readers from before the codec had its number
    const open = () => cinch.openValue(stored, given(v), v.max_raw ?? cinch.DEFAULT_MAX_RAW);
    if (v.error) assert.throws(open, exactly(CLASSES[v.error] ?? cinch.Damaged), v.name);
    else assert.ok(open().equals(read(v.value)), v.name);
  }
});

test('a flipped bit behind the magic gives an error or the right value', () => {
  for (const v of vectors.filter((v) => !v.error && v.name.endsWith('-order.json'))) {
    const [stored, value, dictionaries] = [read(v.stored), read(v.value), given(v)];
    for (let bit = 24; bit < 8 * stored.length; bit++) {
      const damaged = Buffer.from(stored);
      damaged[bit >> 3] ^= 1 << (bit & 7);
      try {
        assert.ok(cinch.openValue(damaged, dictionaries).equals(value), `${v.name}, bit ${bit}`);
        assert.equal(dictionaries.size, 0, 'under a tag all damage is found');
      } catch (e) {
        assert.ok(e instanceof cinch.EnvelopeError, `${v.name}, bit ${bit}: ${e.stack}`);
      }
    }
  }
});

test('every cut is refused', () => {
  for (const v of vectors.filter((v) => !v.error && v.name.endsWith('-order.json'))) {
    const stored = read(v.stored);
    for (let n = 3; n < stored.length; n++) {
      assert.throws(() => cinch.openValue(stored.subarray(0, n), given(v)), cinch.Damaged, `${v.name}, ${n} bytes`);
    }
  }
});

test('a wrong tag is found before anything is decoded', () => {
  const tags = vectors.filter((v) => v.error === 'tag');
  assert.ok(tags.length > 0);
  for (const v of tags) assert.throws(() => cinch.openValue(read(v.stored), given(v)), /tag/, v.name);
});

/** An envelope around a payload, whatever it is. */
function envelope(codec, rawLen, payload) {
  const length = [];
  for (; rawLen >= 128; rawLen = Math.floor(rawLen / 128)) length.push((rawLen & 127) | 128);
  return Buffer.concat([Buffer.from([0xc1, 0xdd, 0xdc, 0x10 | codec, 0, ...length, rawLen, 0, 0, 0, 0]), payload]);
}

test('payloads that would decode to more than was declared', () => {
  const zeros = Buffer.alloc(1 << 20);
  const zstd = cinch.sealValue(zeros).subarray(12); // behind a header of 12 bytes
  for (const [codec, payload] of [[5, zstd], [7, gzipSync(zeros)]]) {
    assert.throws(() => cinch.openValue(envelope(codec, 100, payload)), exactly(cinch.Damaged));
  }
  const endless = Buffer.from([0x00, 0x58, ...[0x02, 0xff, 0xff, 0x41], ...[0x03, 0xff, 0xff, 0x41]]); // no content size, RLE blocks
  assert.throws(() => cinch.openValue(envelope(5, 100, endless)), exactly(cinch.Damaged));
});

test('a second member or frame, and bytes behind the end', () => {
  const value = Buffer.from('value '.repeat(20));
  const frame = cinch.sealValue(value).subarray(10);
  const magic = Buffer.from([0x28, 0xb5, 0x2f, 0xfd]);
  for (const [codec, payload] of [
    [5, Buffer.concat([frame, magic, frame])],
    [5, Buffer.concat([frame, Buffer.from([0])])],
    [7, Buffer.concat([gzipSync(value), gzipSync(value)])],
    [7, Buffer.concat([gzipSync(value), Buffer.from([0])])],
  ]) {
    for (const rawLen of [value.length, 2 * value.length]) {
      assert.throws(() => cinch.openValue(envelope(codec, rawLen, payload)), exactly(cinch.Damaged));
    }
  }
});

test('seals what it opens', () => {
  const contents = ['dictionaries/trained.dict', 'dictionaries/raw.dict'].map(read);
  const looks = Buffer.from([0xc1, 0xdd, 0xdc, 0, 1, 2]);
  for (const dictionary of [undefined, ...contents.map((content) => new cinch.Dictionary(content))]) {
    const dictionaries = new Map(dictionary ? [[dictionary.number, dictionary]] : []);
    for (const value of [read('values/order.json'), read('values/orders'), read('values/noise'), Buffer.alloc(0), looks]) {
      for (const level of [1, 3, 19]) {
        const stored = cinch.sealValue(value, { level, dictionary });
        assert.ok(cinch.openValue(stored, dictionaries).equals(value));
        assert.ok(stored.length <= value.length || cinch.isSealed(value));
      }
    }
    const header = cinch.parseHeader(cinch.sealValue(read('values/orders'), { dictionary }));
    assert.equal(header.dictionary, dictionary?.number ?? 0);
  }
});

test('no frame names a dictionary or has a checksum', () => {
  const dictionary = new cinch.Dictionary(read('dictionaries/trained.dict'));
  const stored = cinch.sealValue(read('values/orders'), { dictionary });
  assert.equal(stored[cinch.parseHeader(stored).length] & 7, 0);
});
