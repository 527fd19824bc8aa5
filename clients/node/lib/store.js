// What Redis servers hold beside the values: dictionaries, and what gateways agreed on (docs/FORMAT.md and docs/LIBRARIES.md).
//
// send sends one command, as an array of strings, and resolves to its answer, with buffers or strings in it; sends are those of all
// servers that hold values: one, or the primaries of a cluster.

import { Dictionary, MAX_BYTES, dictionaryNumber, hex } from './dictionary.js';
import { CinchError, Damaged, DictionaryMissing } from './errors.js';
import { POLICY_RECORD, readPolicy } from './policy.js';
import * as zstd from './zstd.js';

const PLACES = [['cinch_dict_', 'cinch:dict:'], ['cinch_archive_', 'cinch:dict:archive:']];
const RECORD = /^cinch_rule_(.+)_([0-9a-f]{16})$/s;
const UNKNOWN = /function not found|unknown command|unknown subcommand/i;

/** Resolves to undefined where the server has no such function, or no functions. */
async function unlessUnknown(answer) {
  try {
    return await answer;
  } catch (e) {
    if (!UNKNOWN.test(e.message)) throw e;
    return undefined;
  }
}

/**
 * A dictionary from the server whose values name it; it looks into all places, in their order.
 * @returns {Promise<Dictionary>}
 */
export async function fetchDictionary(send, number) {
  const name = hex(number);
  const list = ['FUNCTION', 'LIST', 'LIBRARYNAME', `cinch_*_${name}`, 'WITHCODE'];
  const libraries = ((await unlessUnknown(send(list))) ?? []).map(entries);
  const sources = new Map(libraries.map((library) => [String(library.get('library_name')), String(library.get('library_code'))]));
  for (const [library, key] of PLACES) {
    const source = sources.get(library + name);
    const content = source === undefined ? await unlessElsewhere(send(['GET', key + name])) : contentOf(source);
    if (!content) continue;
    if (dictionaryNumber(content) === number) return new Dictionary(content);
    break;
  }
  throw new DictionaryMissing(hex(number));
}

/** The same from the first server that has it. None has it only if each says so. */
export async function fetchFromAny(sends, number) {
  let missing;
  for (const send of sends) {
    try {
      return await fetchDictionary(send, number);
    } catch (e) {
      if (!missing || !(e instanceof DictionaryMissing)) missing = e;
    }
  }
  throw missing;
}

/**
 * The content in a library's source: compressed in a comment or, from 0.1.0, plain in the text that the function returns. Empty where
 * there is none.
 */
function contentOf(source) {
  const [, size, text] = /\n-- zstd ([0-9]{1,6}) (\S+)\n/.exec(source) ?? [];
  if (!text) return Buffer.from(/return '([^']*)'/.exec(source)?.[1] ?? '', 'base64');
  try {
    const frame = Buffer.from(text, 'base64');
    return zstd.decompress(frame.subarray(zstd.MAGIC.length), Math.min(Number(size), MAX_BYTES));
  } catch (e) {
    if (!(e instanceof Damaged)) throw e;
    return Buffer.alloc(0);
  }
}

/** Resolves to null where another node of a cluster has the key's slot: that one is asked too. */
async function unlessElsewhere(answer) {
  try {
    return await answer;
  } catch (e) {
    if (!e.message.startsWith('MOVED ')) throw e;
    return null;
  }
}

/**
 * The policy that gateways have published, with the dictionaries that may be named in new values now: those that all servers have.
 * One question to each where they have functions, besides who we are. username is the one that the client was given, if it was.
 */
export async function agreement(sends, username) {
  const login = await loginOf(sends[0], username);
  const found = await Promise.all(sends.map((send) => unlessUnknown(send(['FUNCTION', 'LIST', 'LIBRARYNAME', 'cinch_*']))));
  if (found.every(Boolean)) return agreedByFunctions(found.map((libraries) => libraries.map(entries)), login);
  if (sends.length > 1) throw new CinchError('a cluster of servers without functions (Redis 6) is not supported: use a Cinch gateway');
  return agreedByKeys(sends[0], login);
}

/** '' for the server's default user. The server knows better than the client's options, unless the user may not ask. */
async function loginOf(send, username = '') {
  const name = await send(['ACL', 'WHOAMI']).then(String, () => username);
  return name === 'default' ? '' : name;
}

function agreedByFunctions(servers, login) {
  const names = servers.map((libraries) => new Set(libraries.map((library) => String(library.get('library_name')))));
  const policy = readPolicy(newest(servers.flat()), login);
  policy.keep((n) => names.every((here) => here.has(`cinch_dict_${hex(n)}`) && !here.has(`cinch_retired_${hex(n)}`)));
  return policy;
}

/** The records by name, each in its highest version. */
function newest(libraries) {
  const found = new Map();
  for (const library of libraries) {
    const [, name, version] = RECORD.exec(String(library.get('library_name'))) ?? [];
    if (!name || found.get(name)?.version > version) continue;
    found.set(name, { version, text: String(entries(library.get('functions')[0]).get('description')) });
  }
  return new Map([...found].map(([name, { text }]) => [name, text]));
}

async function agreedByKeys(send, login) {
  const records = new Map([[POLICY_RECORD, await recordKey(send, POLICY_RECORD)]]);
  for (const name of readPolicy(records, login).records) records.set(name, await recordKey(send, name));
  const policy = readPolicy(records, login);
  const live = new Set();
  for (const n of policy.dictionaries) if (await isLive(send, hex(n))) live.add(n);
  policy.keep((n) => live.has(n));
  return policy;
}

/** A record's text, which follows its version and a space. */
async function recordKey(send, name) {
  const text = String((await send(['GET', `cinch:dict:rule:${name}`])) ?? '');
  return text.includes(' ') ? text.slice(text.indexOf(' ') + 1) : '';
}

async function isLive(send, name) {
  const exists = async (key) => Number(await send(['EXISTS', `cinch:dict:${key}`])) === 1;
  return (await exists(name)) && !(await exists(`retired:${name}`));
}

/** What RESP3 answers as a map, in whatever form a client has it, or as RESP2 has it, a list of names and values. */
function entries(map) {
  if (map instanceof Map) return new Map([...map].map(([name, value]) => [String(name), value]));
  if (!Array.isArray(map)) return new Map(Object.entries(map));
  return new Map(map.flatMap((name, i) => (i % 2 ? [] : [[String(name), map[i + 1]]])));
}
