// Seals and opens for tests of other languages: a JSON object a line in, one out, in order.

import { createInterface } from 'node:readline';
import * as cinch from '../lib/index.js';

const bytes = (text) => Buffer.from(text, 'base64');
const WORDS = [
  [cinch.DictionaryMissing, 'dictionary missing'],
  [cinch.UnknownCodec, 'unknown codec'],
  [cinch.TooLarge, 'too large'],
  [cinch.Damaged, 'damaged'],
];

function seal({ value, level, dictionary }) {
  return cinch.sealValue(bytes(value), { level, dictionary: dictionary && new cinch.Dictionary(bytes(dictionary)) });
}

function open({ value, dictionaries = [], max_raw: maxRaw }) {
  const known = dictionaries.map(bytes).map((content) => [cinch.dictionaryNumber(content), content]);
  return cinch.openValue(bytes(value), new Map(known), maxRaw);
}

function answer(request) {
  try {
    return { value: (request.op === 'seal' ? seal : open)(request).toString('base64') };
  } catch (e) {
    const found = WORDS.find(([kind]) => e instanceof kind);
    if (!found) throw e;
    return { error: found[1] };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(JSON.stringify(answer(JSON.parse(line))) + '\n');
}
