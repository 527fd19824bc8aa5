// Where commands carry values: what needs no server, or a newer one than is installed.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { values } from '../lib/commands.js';

/** The values' places as they stand in the words. */
const marked = (words) => words.flatMap((word, at) => (/^V\d$/.test(word) ? [at] : []));

test('values are found behind all options', () => {
  const commands = [
    'SET k V1 EX 10 NX', 'SETEX k 10 V1', 'MSET a V1 b V2', 'MSETEX 2 a V1 b V2 EX 10', 'HSET k f V1 g V2', 'HSETNX k f V1',
    'HSETEX k FIELDS 2 f V1 g V2', 'HSETEX k FNX EX 10 FIELDS 1 fields V1', 'hsetex k KEEPTTL fields 1 f V1',
    'XADD k * f V1', 'XADD k NOMKSTREAM MAXLEN ~ 10 LIMIT 5 * f V1 g V2', 'xadd k minid = 5-0 7-0 f V1', 'XADD k MAXLEN 10 KEEPREF * f V1', 'XADD k IDMP p i * f V1', 'XADD k IDMPAUTO p * f V1',
  ];
  for (const command of commands) {
    const words = command.split(' ');
    assert.deepEqual(values(words).map(({ at }) => at), marked(words), command);
  }
});

test('of a command that is wrong the server says so', () => {
  for (const command of ['SET', 'SET k', 'MSETEX', 'MSETEX two k v', 'XADD k', 'XADD k MAXLEN', 'HSETEX k', 'HSETEX k FIELDS', 'HSETEX k FIELDS 1 f']) {
    assert.deepEqual(values(command.split(' ')), [], command);
  }
});
