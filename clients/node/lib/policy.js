// Which values are sealed, and how: the rules that gateways publish in the store (docs/LIBRARIES.md has their format).

import { createHash } from 'node:crypto';
import { compileGlob } from './glob.js';
import { cost } from './size.js';

export const POLICY_RECORD = 'policy';
const FORMAT = 1;
const MIN_GAIN = 0.1;
const NOTHING_GAINS = 0.999999999; // as a rule's min_gain: gateways alone seal there

/** One rule, as published. */
class Rule {
  constructor(text) {
    this.space = text.space ?? '';
    this.types = new Set(text.types ?? []);
    this.minSize = text.min_size ?? 0;
    this.maxSize = text.max_size || Infinity;
    this.minGain = text.min_gain ?? MIN_GAIN;
    this.seals = (text.codec ?? 'raw') !== 'raw' && !text.observe;
    this.level = (text.codec === 'zstd' && text.level) || 3;
    this.dictionary = parseInt(text.dictionary || '0', 16);
    this.record = text.record ?? '';
    this.shared = text.shared ?? false;
    this.key = compileGlob(text.key ?? '*');
    this.field = compileGlob(text.field || '*');
    this.strings = !text.field;
  }

  /** field is undefined for what has none. */
  covers(space, key, field, kind) {
    return (
      this.types.has(kind) &&
      (!this.space || this.space === space) &&
      (field === undefined ? this.strings : this.field(field)) &&
      this.key(key)
    );
  }

  /** Whether a library may seal by the rule. */
  get isOurs() {
    return this.seals && this.minGain < NOTHING_GAINS;
  }

  takes(size) {
    return size >= this.minSize && size <= this.maxSize;
  }

  /** The function that sealValue asks. */
  worth(kind) {
    return (raw, sealed) => {
      const [before, after] = cost(kind, raw, sealed);
      return after < before && before - after >= this.minGain * before;
    };
  }

  /** The name of the record with the rule's dictionaries; login is '' for the server's default user. */
  recordFor(login) {
    if (!this.record || this.shared || !login) return this.record;
    return createHash('sha256').update(`${this.record} ${login}`).digest('hex').slice(0, 16);
  }
}

/** All rules, in order, with the dictionaries in force for a login. */
export class Policy {
  #current = new Map(); // numbers by the record's name
  #live = new Set();

  constructor(document = { off: true }, login = '') {
    this.off = document.off ?? false;
    this.rules = (document.rules ?? []).map((text) => new Rule(text));
    this.login = login;
    this.exclude = (document.exclude ?? []).map(compileGlob);
  }

  excluded(key) {
    return this.exclude.some((matches) => matches(key));
  }

  /** The first rule that covers a value, or undefined. */
  rule(space, key, field, kind, size) {
    if (this.off) return undefined;
    return this.rules.find((rule) => rule.takes(size) && rule.covers(space, key, field, kind));
  }

  /** Whether some value of the key may be stored sealed. */
  maySeal(space, key, kind) {
    const field = kind === 'string' ? undefined : Buffer.alloc(0);
    return !this.excluded(key) && this.rules.some((rule) => rule.seals && rule.covers(space, key, field, kind));
  }

  /** The number of the dictionary that new values may name; 0: none. */
  dictionaryOf(rule) {
    const number = this.#current.get(rule.recordFor(this.login)) ?? rule.dictionary;
    return this.#live.has(number) ? number : 0;
  }

  /** The names of the records that say which dictionaries are in force. */
  get records() {
    return this.rules.filter((rule) => rule.seals).map((rule) => rule.recordFor(this.login)).filter(Boolean);
  }

  setCurrent(record, number) {
    this.#current.set(record, number);
  }

  /** The numbers that new values may name, if they are live. */
  get dictionaries() {
    const numbers = new Set([...this.#current.values(), ...this.rules.map((rule) => rule.dictionary)]);
    numbers.delete(0);
    return numbers;
  }

  /** Says which of the dictionaries are in the store and not retired. Until then none is. */
  keep(live) {
    this.#live = new Set([...this.dictionaries].filter(live));
  }
}

/**
 * The policy that gateways have published; one that seals nothing where there is none, or one of a later format.
 * @param {Map<string, string>} records
 */
export function readPolicy(records, login) {
  const document = JSON.parse(records.get(POLICY_RECORD) || '{}');
  if (document.format !== FORMAT) return new Policy();
  const policy = new Policy(document, login);
  for (const name of policy.records) {
    const { current } = JSON.parse(records.get(name) || '{}');
    if (current) policy.setCurrent(name, parseInt(current.dict, 16));
  }
  return policy;
}

/** What the server computes on: a canonical int64, a HyperLogLog. */
export function neverSealed(value) {
  if (value.length >= 4 && value.toString('latin1', 0, 4) === 'HYLL') return true;
  const text = value.length <= 20 ? value.toString('latin1') : '';
  return /^(0|-?[1-9][0-9]*)$/.test(text) && BigInt.asIntN(64, BigInt(text)) === BigInt(text);
}
