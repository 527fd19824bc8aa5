// Opens and seals Cinch envelopes (docs/FORMAT.md, version 1).

import { createHmac, timingSafeEqual } from 'node:crypto';
import { crc32, inflateRawSync, inflateSync } from 'node:zlib';
import * as blocks from './blocks.js';
import { find, hex } from './dictionary.js';
import { Damaged, DictionaryMissing, TooLarge, UnknownCodec } from './errors.js';
import * as zstd from './zstd.js';

const MAGIC = Buffer.from([0xc1, 0xdd, 0xdc]);
const TAG_LEN = 8;
const CODECS = ['raw', 'snappy', 's2', 'minlz', 'lz4', 'zstd', 'zlib', 'gzip'];
const [RAW, SNAPPY, S2, MINLZ, LZ4, ZSTD, ZLIB, GZIP] = CODECS.keys();

export const DEFAULT_MAX_RAW = 32 << 20;
const FOREIGN = 0x40; // added to the number of another library's format: a codec that we don't know
const HIGHEST_MAX_RAW = 512 << 20; // as long as Redis's own values; what the decoders' memory is sure to hold

/** Whether the bytes begin with the magic: then they are an envelope, or damaged. */
export function isSealed(stored) {
  return stored.length >= 3 && stored[0] === MAGIC[0] && stored[1] === MAGIC[1] && stored[2] === MAGIC[2];
}

const asBuffer = (bytes) => (Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));

/** Needs the first 82 bytes of an envelope, or all of it. */
export function parseHeader(stored) {
  const input = new blocks.Reader(asBuffer(stored), MAGIC.length);
  const first = input.byte();
  if (first >> 4 !== 1) throw new Damaged('unknown version');
  const flags = input.byte();
  if (flags & 0x30) throw new Damaged('reserved flag is set');
  const header = { codec: first & 15, rawLen: input.uvarint(), dictionary: 0, tagAt: input.at };
  if (flags & 0x80) readTag(input, header);
  else header.checksum = input.little(4);
  const words = input.skip(4 * (flags & 15));
  if (flags & 0x40) checkForeign(input.bytes.subarray(words, input.at), header);
  return { ...header, length: input.at };
}

/** What is sealed is the content of a value in another library's format, which we can't write: an unknown codec. */
function checkForeign(words, header) {
  if (words[0] !== 1 || words[1] === 0 || words[3] !== 0) throw new Damaged('no format of the value is named');
  header.codec = FOREIGN + words[1];
}

function readTag(input, header) {
  const at = input.skip(TAG_LEN);
  header.tag = input.bytes.subarray(at, at + TAG_LEN);
  header.dictionary = input.bytes.readUInt32BE(input.skip(4));
  if (header.dictionary === 0) throw new Damaged('dictionary number is 0');
  if (header.codec < CODECS.length && header.codec !== ZSTD) throw new Damaged('only zstd takes a dictionary');
}

/**
 * The value that stored stands for; bytes without the magic come back as they are.
 * @param {Uint8Array} stored
 * @param {Map<number, Uint8Array | Dictionary>} dictionaries
 */
export function openValue(stored, dictionaries = new Map(), maxRaw = DEFAULT_MAX_RAW) {
  stored = asBuffer(stored);
  if (!isSealed(stored)) return stored;
  const header = parseHeader(stored);
  checkHeader(header, Math.min(maxRaw, HIGHEST_MAX_RAW));
  const dictionary = header.dictionary ? tagged(stored, header, dictionaries) : undefined;
  const value = decode(header, stored.subarray(header.length), dictionary);
  if (value.length !== header.rawLen) throw new Damaged(`${value.length} bytes, ${header.rawLen} declared`);
  if (!dictionary && crc32(value) !== header.checksum) throw new Damaged('checksum does not match');
  return value;
}

function checkHeader(header, maxRaw) {
  if (header.codec >= CODECS.length) throw new UnknownCodec(`codec ${header.codec}`);
  if (header.codec !== RAW && header.rawLen > maxRaw) {
    throw new TooLarge(`${header.rawLen} bytes declared, at most ${maxRaw} are opened`);
  }
}

/** The dictionary that an envelope names, if the tag says that its writer had it: nothing is decoded before. */
function tagged(stored, header, dictionaries) {
  const dictionary = find(dictionaries, header.dictionary);
  if (!dictionary) throw new DictionaryMissing(hex(header.dictionary));
  const tag = tagOf(dictionary, stored.subarray(0, header.tagAt), stored.subarray(header.tagAt + TAG_LEN));
  if (!timingSafeEqual(tag, header.tag)) throw new Damaged('tag does not match');
  return dictionary;
}

/**
 * What to store for a value: its envelope, by zstd, or the value itself where that is better.
 *
 * worth decides whether so many bytes in place of so many are a gain; any saving is, without it. A value that begins
 * with the magic is put into an envelope in any case, so that opening gives it back.
 * @param {Uint8Array} value
 */
export function sealValue(value, { level = 3, dictionary, worth = smaller, maxRaw = DEFAULT_MAX_RAW } = {}) {
  value = asBuffer(value);
  if (value.length > 0 && value.length <= Math.min(maxRaw, HIGHEST_MAX_RAW)) {
    const sealed = zstdEnvelope(value, level, dictionary);
    if (worth(value.length, sealed.length)) return sealed;
  }
  return isSealed(value) ? escape(value) : value;
}

const smaller = (raw, sealed) => sealed < raw;

/** An envelope that holds the value as it is. */
export function escape(value) {
  return Buffer.concat([head(RAW, value.length, 0), checksum(value), value]);
}

function zstdEnvelope(value, level, dictionary) {
  const payload = zstd.compress(value, level, dictionary?.zstd);
  if (!dictionary) return Buffer.concat([head(ZSTD, value.length, 0), checksum(value), payload]);
  const number = Buffer.allocUnsafe(4);
  number.writeUInt32BE(dictionary.number);
  const before = head(ZSTD, value.length, 0x80);
  const after = Buffer.concat([number, payload]);
  return Buffer.concat([before, tagOf(dictionary, before, after), after]);
}

function head(codec, rawLen, flags) {
  const bytes = [...MAGIC, (1 << 4) | codec, flags];
  for (; rawLen >= 0x80; rawLen = Math.floor(rawLen / 128)) bytes.push((rawLen & 0x7f) | 0x80);
  return Buffer.from([...bytes, rawLen]);
}

function checksum(value) {
  const out = Buffer.allocUnsafe(4);
  out.writeUInt32LE(crc32(value));
  return out;
}

function tagOf(dictionary, before, after) {
  return createHmac('sha256', dictionary.tagKey).update(before).update(after).digest().subarray(0, TAG_LEN);
}

function decode({ codec, rawLen }, payload, dictionary) {
  switch (codec) {
    case RAW:
      return payload;
    case SNAPPY:
    case S2:
      return blocks.snappy(payload, rawLen, codec === S2);
    case MINLZ:
      return blocks.minlz(payload, rawLen);
    case LZ4:
      return blocks.lz4(payload, rawLen);
    case ZSTD:
      return zstd.decompress(payload, rawLen, dictionary?.zstd);
    case ZLIB:
      return inflate(inflateSync, payload, rawLen);
    case GZIP:
      return gunzip(payload, rawLen);
  }
}

/** All of the bytes must be the stream. */
function inflate(by, bytes, rawLen) {
  let done;
  try {
    done = by(bytes, { maxOutputLength: rawLen || 1, info: true });
  } catch (e) {
    throw new Damaged(e.message);
  }
  if (done.engine.bytesWritten !== bytes.length) throw new Damaged('payload does not end with the stream');
  return done.buffer;
}

/** One member: node's own function reads any number of them. */
function gunzip(payload, rawLen) {
  const trailer = payload.length - 8;
  const start = gzipHeader(new blocks.Reader(payload));
  if (start > trailer) throw new Damaged('cut off');
  const value = inflate(inflateRawSync, payload.subarray(start, trailer), rawLen);
  if (payload.readUInt32LE(trailer) !== crc32(value) || payload.readUInt32LE(trailer + 4) !== value.length) {
    throw new Damaged('gzip trailer does not match');
  }
  return value;
}

/** Reads the header of RFC 1952 and returns its length. */
function gzipHeader(input) {
  if (input.little(2) !== 0x8b1f || input.byte() !== 8) throw new Damaged('not gzip');
  const flags = input.byte();
  if (flags & 0xe0) throw new Damaged('reserved flag of gzip is set');
  input.skip(6);
  if (flags & 4) input.skip(input.little(2)); // extra
  if (flags & 8) while (input.byte()); // name
  if (flags & 16) while (input.byte()); // comment
  if (flags & 2) gzipHeaderChecksum(input);
  return input.at;
}

function gzipHeaderChecksum(input) {
  const want = crc32(input.bytes.subarray(0, input.at)) & 0xffff;
  if (input.little(2) !== want) throw new Damaged('gzip header does not match');
}

