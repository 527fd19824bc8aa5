// zstd by libzstd as WebAssembly. Frames are walked here first: nothing that a frame declares leads the decoder.

import { createRequire } from 'node:module';
import { dirname, sep } from 'node:path';
import { Reader } from './blocks.js';
import { Damaged } from './errors.js';

export const MAGIC = Buffer.from([0x28, 0xb5, 0x2f, 0xfd]);
const NONE = Buffer.alloc(0);

// An instance of our own: where the application calls init() of the same package again, the memory behind our contexts would be replaced.
function privateInstance(name) {
  const require = createRequire(import.meta.url);
  const folder = dirname(require.resolve(name)) + sep;
  const inFolder = () => Object.keys(require.cache).filter((path) => path.startsWith(folder));
  const others = inFolder().map((path) => [path, require.cache[path]]);
  const forget = () => inFolder().forEach((path) => delete require.cache[path]);
  forget();
  const instance = require(name);
  forget();
  Object.assign(require.cache, Object.fromEntries(others));
  return instance;
}

const wasm = privateInstance('@bokuweb/zstd-wasm');
await wasm.init();

// Kept, as making one takes far longer than compressing a small value. All calls are synchronous.
const contexts = { compress: wasm.createCCtx(), decompress: wasm.createDCtx() };

/** One frame without its magic, dictionary identifier and checksum. dictionary is as libzstd should see it: see Dictionary. */
export function compress(value, level, dictionary = NONE) {
  const frame = wasm.compressUsingDict(contexts.compress, value, dictionary, level);
  return Buffer.from(frame.buffer, frame.byteOffset + MAGIC.length, frame.length - MAGIC.length);
}

/** The value of one frame without its magic, of rawLen bytes. */
export function decompress(payload, rawLen, dictionary = NONE) {
  checkFrame(payload, rawLen);
  const frame = Buffer.concat([MAGIC, payload]);
  try {
    const value = wasm.decompressUsingDict(contexts.decompress, frame, dictionary, { defaultHeapSize: rawLen });
    return Buffer.from(value.buffer, value.byteOffset, value.length);
  } catch (e) {
    wasm.freeDCtx(contexts.decompress);
    contexts.decompress = wasm.createDCtx();
    throw new Damaged(`zstd: ${e.message}`);
  }
}

/** Refuses what is not one frame (RFC 8878) from beginning to end, and one that declares another length. */
function checkFrame(payload, rawLen) {
  const input = new Reader(payload);
  const descriptor = input.byte();
  const single = descriptor & 0x20;
  if (descriptor & 8) throw new Damaged('reserved bit of the frame is set');
  input.skip((single ? 0 : 1) + [0, 1, 2, 4][descriptor & 3]);
  checkContentSize(input, descriptor >> 6, single, rawLen);
  while (!block(input));
  if (descriptor & 4) input.skip(4); // its checksum
  if (!input.ended) throw new Damaged('payload is not one frame');
}

function checkContentSize(input, code, single, rawLen) {
  const width = code === 0 && single ? 1 : [0, 2, 4, 8][code];
  if (width === 0) return;
  let size = width === 8 ? input.little(4) + input.little(4) * 2 ** 32 : input.little(width);
  if (width === 2) size += 256;
  if (size !== rawLen) throw new Damaged(`the frame has ${size} bytes, ${rawLen} declared`);
}

/** Steps over a block and says whether it is the last. */
function block(input) {
  const header = input.little(3);
  const type = (header >> 1) & 3;
  if (type === 3) throw new Damaged('block type is reserved');
  input.skip(type === 1 ? 1 : header >> 3);
  return header & 1;
}
