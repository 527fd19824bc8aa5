// Dictionaries: immutable bytes with a number (docs/FORMAT.md, section 5).

import { createHash } from 'node:crypto';

const MIN_BYTES = 16;
export const MAX_BYTES = 512 << 10;
const STRUCTURED = 0xec30a437;

const sha256 = (...parts) => parts.reduce((hash, part) => hash.update(part), createHash('sha256')).digest();

/** The first 4 bytes of the content's SHA-256. */
export function dictionaryNumber(content) {
  return sha256(content).readUInt32BE(0);
}

/** A number as it stands in names: 8 hexadecimal digits. */
export function hex(number) {
  return number.toString(16).padStart(8, '0');
}

export class Dictionary {
  /** @param {Uint8Array} content */
  constructor(content) {
    if (content.length < MIN_BYTES || content.length > MAX_BYTES) {
      throw new RangeError(`a dictionary has ${MIN_BYTES} to ${MAX_BYTES} bytes, this has ${content.length}`);
    }
    this.content = Buffer.from(content);
    this.number = dictionaryNumber(this.content);
    this.tagKey = sha256('cinch tag v1', this.content);
    this.zstd = withoutIdentifier(this.content);
  }
}

/** The content as libzstd should see it: with the identifier 0, which it neither writes into frames nor compares. */
function withoutIdentifier(content) {
  if (content.readUInt32LE(0) !== STRUCTURED) return content;
  const copy = Buffer.from(content);
  copy.writeUInt32LE(0, 4);
  return copy;
}

/** The dictionary of that number, or undefined: also where something else lies under it. */
export function find(dictionaries, number) {
  let found = dictionaries.get(number);
  if (found && !(found instanceof Dictionary)) found = new Dictionary(found);
  return found?.number === number ? found : undefined;
}
