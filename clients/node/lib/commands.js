// Where Redis's commands carry values, and which of them compute on values. Commands are arrays of strings and buffers.

import { Refused } from './errors.js';

const upper = (arg) => String(arg).toUpperCase();

/** Every second place from first to the end, whose name is before it. */
function* pairs(first, end, kind, key) {
  for (let at = first; at < end; at += 2) yield { at, key: key ?? at - 1, field: key && at - 1, kind };
}

const stringAt = (at) => () => [{ at, key: 1, kind: 'string' }];
const fields = (first) => (args) => pairs(first, args.length, 'hash', 1);

/** HSETEX key [options] FIELDS n field value ... */
function fieldsAfter(args) {
  const at = args.findIndex((arg, i) => i >= 2 && upper(arg) === 'FIELDS');
  return at < 0 ? [] : pairs(at + 3, args.length, 'hash', 1);
}

const ENTRY_OPTIONS = { NOMKSTREAM: 1, KEEPREF: 1, DELREF: 1, ACKED: 1, IDMPAUTO: 2, LIMIT: 2, IDMP: 3, MAXLEN: 2, MINID: 2 };

/** XADD key [NOMKSTREAM] [KEEPREF|DELREF|ACKED] [IDMPAUTO p | IDMP p i] [MAXLEN|MINID [=|~] n [LIMIT n]] id field value ... */
function entry(args) {
  let at = 2;
  while (at < args.length) {
    const option = upper(args[at]);
    const width = Object.hasOwn(ENTRY_OPTIONS, option) ? ENTRY_OPTIONS[option] : 0;
    if (!width) break;
    const exact = /^M(AXLEN|INID)$/.test(option) && /^[=~]$/.test(String(args[at + 1]));
    at += width + (exact ? 1 : 0);
  }
  return pairs(at + 2, args.length, 'stream', 1);
}

const WRITES = new Map([
  ...['SET', 'SETNX', 'GETSET'].map((name) => [name, stringAt(2)]),
  ...['SETEX', 'PSETEX'].map((name) => [name, stringAt(3)]),
  ...['MSET', 'MSETNX'].map((name) => [name, (args) => pairs(2, args.length, 'string')]),
  ['MSETEX', (args) => pairs(3, Math.min(2 + 2 * Number(args[1]), args.length), 'string')],
  ...['HSET', 'HMSET', 'HSETNX'].map((name) => [name, fields(3)]),
  ['HSETEX', fieldsAfter],
  ['XADD', entry],
]);

// Commands that read or change a value's bytes in the server: with the kind of value, and where their keys begin and end.
const COMPUTES = new Map([
  ...['APPEND', 'SETRANGE', 'GETRANGE', 'SUBSTR', 'STRLEN', 'SETBIT', 'GETBIT', 'BITCOUNT', 'BITPOS', 'BITFIELD', 'BITFIELD_RO', 'DIGEST', 'DELEX'].map(
    (name) => [name, ['string', 1, 2]],
  ),
  ['LCS', ['string', 1, 3]],
  ['BITOP', ['string', 2, undefined]],
  ['HSTRLEN', ['hash', 1, 2]],
]);
const COMPARES = new Set(['IFEQ', 'IFNE', 'IFDEQ', 'IFDNE']);

/** The values that a command writes. One that is wrong writes none, as the server will say. */
export function values(args) {
  const find = WRITES.get(upper(args[0]));
  return find ? [...find(args)].filter((value) => value.at < args.length) : [];
}

/** The keys on whose values a command computes, with the kind of value. */
export function computedKeys(args) {
  const name = upper(args[0]);
  if (name === 'SET' && args.slice(3).some((arg) => COMPARES.has(upper(arg)))) return [['string', args[1]]];
  if (/^SORT(_RO)?$/.test(name) && args.slice(2).some((arg) => /^(BY|GET)$/.test(upper(arg)))) {
    return [['string', ''], ['hash', '']];
  }
  const [kind, first, end] = COMPUTES.get(name) ?? ['', args.length];
  return args.slice(first, end).map((key) => [kind, key]);
}

export function refused(args, key) {
  return new Refused(
    `${upper(args[0])} would compute on compressed bytes: the policy compresses values of ${JSON.stringify(String(key))}. Read the value ` +
      'instead, exclude the key in the policy, or send the command through a Cinch gateway, which computes on the value',
  );
}
