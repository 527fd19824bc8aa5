// What Redis servers hold beside the values: dictionaries, and what gateways agreed on (docs/FORMAT.md and docs/LIBRARIES.md).
//
// send sends one command, as an array of strings, and resolves to its answer, with buffers or strings in it.

import { Dictionary, dictionaryNumber, hex } from './dictionary.js';
import { DictionaryMissing } from './errors.js';
import { POLICY_RECORD, readPolicy } from './policy.js';

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
  for (const place of PLACES) {
    const content = await contentAt(send, ...place, hex(number));
    if (!content) continue;
    if (dictionaryNumber(content) === number) return new Dictionary(content);
    break;
  }
  throw new DictionaryMissing(hex(number));
}

async function contentAt(send, library, key, name) {
  const text = await unlessUnknown(send(['FCALL_RO', library + name, '0']));
  return text === undefined ? send(['GET', key + name]) : Buffer.from(String(text), 'base64');
}

/**
 * The policy that gateways have published, with the dictionaries that may be named in new values now. One question
 * where the server has functions, besides who we are. username is the one that the client was given, if it was.
 */
export async function agreement(send, username) {
  const login = await loginOf(send, username);
  const libraries = await unlessUnknown(send(['FUNCTION', 'LIST', 'LIBRARYNAME', 'cinch_*']));
  return libraries ? agreedByFunctions(libraries.map(entries), login) : agreedByKeys(send, login);
}

/** '' for the server's default user. The server knows better than the client's options, unless the user may not ask. */
async function loginOf(send, username = '') {
  const name = await send(['ACL', 'WHOAMI']).then(String, () => username);
  return name === 'default' ? '' : name;
}

function agreedByFunctions(libraries, login) {
  const names = new Set(libraries.map((library) => String(library.get('library_name'))));
  const policy = readPolicy(newest(libraries), login);
  policy.keep((n) => names.has(`cinch_dict_${hex(n)}`) && !names.has(`cinch_retired_${hex(n)}`));
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
