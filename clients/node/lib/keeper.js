// What a client knows of its store: the policy and the dictionaries; seals commands and opens answers by them.

import { computedKeys, refused, values } from './commands.js';
import { hex } from './dictionary.js';
import { escape, isSealed, openValue, parseHeader, sealValue } from './envelope.js';
import { CinchError, DictionaryMissing, DictionaryUnavailable, EnvelopeError } from './errors.js';
import { Policy, neverSealed } from './policy.js';
import { agreement, fetchFromAny } from './store.js';

const LEASE = 120_000; // ms that a dictionary may be named after the store was seen to have it, docs/DICTIONARIES.md
const MAX_DICTIONARIES = 256; // kept at a time

const asBytes = (arg) => (typeof arg === 'string' ? Buffer.from(arg) : arg);

export class Keeper {
  #policy = new Policy();
  #read = -Infinity;
  #dictionaries = new Map();
  #fetching = new Map(); // promises by number
  #asking;
  #timer;

  /**
   * @param {{servers: () => (() => Promise<{send: (args: string[]) => Promise<unknown>, close: () => void}>)[], username?: string}} store
   *   servers returns for each server that holds values, the primaries of a cluster, what opens a connection of its own for questions
   */
  constructor(store, options) {
    this.store = store;
    this.options = options;
  }

  /** Knows what another of the same server knows. */
  inherit(other) {
    this.#policy = other.#policy;
    this.#read = other.#read;
    this.#dictionaries = new Map(other.#dictionaries);
    return this;
  }

  /** Asks now and then every refresh milliseconds, until stop. Resolves when the first answer, or the error, is there. */
  start() {
    if (!this.#timer) {
      this.#timer = setInterval(() => this.#ask(), this.options.refresh).unref();
      this.#ask();
    }
    return this.#asking;
  }

  stop() {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #ask() {
    this.#asking ??= this.#agree().finally(() => (this.#asking = undefined));
  }

  /** What holds stays where there is no answer; dictionaries as long as they may. */
  async #agree() {
    const asked = performance.now();
    try {
      this.#policy = await this.#question((sends) => this.#policyAndDictionaries(sends));
      this.#read = asked;
    } catch (e) {
      if (this.#timer) this.options.warn(`cinch: the policy can't be read, next try in ${this.options.refresh} ms: ${e.message}`);
    }
  }

  async #policyAndDictionaries(sends) {
    const policy = await agreement(sends, this.store.username);
    const wanted = new Set(policy.rules.map((rule) => policy.dictionaryOf(rule)));
    for (const number of wanted) if (number && !this.#dictionaries.has(number)) this.#keep(await fetchFromAny(sends, number));
    return policy;
  }

  async #question(ask) {
    const connections = this.store.servers().map(whenAsked);
    if (connections.length === 0) throw new CinchError('no server is known yet');
    try {
      return await ask(connections.map((connection) => connection.send));
    } finally {
      for (const connection of connections) connection.close();
    }
  }

  #keep(dictionary) {
    this.#dictionaries.set(dictionary.number, dictionary);
    if (this.#dictionaries.size > MAX_DICTIONARIES) this.#dictionaries.delete(this.#dictionaries.keys().next().value);
  }

  /** The error with which a command for a database is refused, or undefined. */
  refusal(args, space) {
    const found = computedKeys(args).find(([kind, key]) => this.#policy.maySeal(space, asBytes(key), kind));
    return found && refused(args, found[1]);
  }

  /** The command for a database with its values sealed. */
  seal(args, space) {
    const places = values(args);
    if (places.length === 0) return args;
    const sealed = [...args];
    for (const place of places) sealed[place.at] = this.#sealed(args, place, space);
    return sealed;
  }

  #sealed(args, { at, key, field, kind }, space) {
    const name = asBytes(args[key]);
    const value = asBytes(args[at]);
    if (this.#policy.excluded(name)) return args[at];
    const rule = neverSealed(value) ? undefined : this.#policy.rule(space, name, field && asBytes(args[field]), kind, value.length);
    if (!rule?.isOurs) return isSealed(value) ? escape(value) : args[at];
    const { maxRaw } = this.options;
    return sealValue(value, { level: rule.level, dictionary: this.#inForce(rule), worth: rule.worth(kind), maxRaw });
  }

  #inForce(rule) {
    const fresh = performance.now() - this.#read < LEASE;
    return fresh ? this.#dictionaries.get(this.#policy.dictionaryOf(rule)) : undefined;
  }

  /**
   * An answer with its envelopes opened, or a promise of it where a dictionary has to be fetched first. decode is called for all bytes.
   * Of an array whose elements are answers of their own, such as EXEC's, errors stand in the elements' place.
   */
  open(answer, decode, elements = false) {
    const numbers = this.#missing(answer, new Set());
    if (numbers.size === 0) return this.#openAll(answer, decode, elements);
    return this.#fetch(numbers).then((failed) => this.#openAll(answer, decode, elements, failed));
  }

  #missing(answer, found) {
    if (Buffer.isBuffer(answer)) {
      const number = isSealed(answer) ? numberOf(answer) : 0;
      if (number && !this.#dictionaries.has(number)) found.add(number);
    } else if (answer && typeof answer === 'object') {
      for (const part of parts(answer)) this.#missing(part, found);
    }
    return found;
  }

  /** Resolves to the errors by number. That nobody has a dictionary is no error yet: opening says so. */
  async #fetch(numbers) {
    const failed = new Map();
    const one = (number) =>
      this.#fetchOne(number).catch((e) => e instanceof DictionaryMissing || failed.set(number, e));
    await Promise.all([...numbers].map(one));
    return failed;
  }

  /** Many answers may wait for one dictionary. */
  #fetchOne(number) {
    if (!this.#fetching.has(number)) {
      const fetched = this.#question((sends) => fetchFromAny(sends, number)).then((dictionary) => this.#keep(dictionary));
      this.#fetching.set(number, fetched.finally(() => this.#fetching.delete(number)));
    }
    return this.#fetching.get(number);
  }

  #openAll(answer, decode, elements, failed) {
    const open = (part) => this.#openPart(part, decode, failed);
    if (!elements || !Array.isArray(answer)) return open(answer);
    return answer.map((element) => {
      try {
        return open(element);
      } catch (e) {
        return e;
      }
    });
  }

  #openPart(answer, decode, failed) {
    if (Buffer.isBuffer(answer)) return decode(isSealed(answer) ? this.#opened(answer, failed) : answer);
    const open = (part) => this.#openPart(part, decode, failed);
    if (Array.isArray(answer)) return answer.map(open);
    if (answer instanceof Map) return new Map([...answer].map((pair) => pair.map(open)));
    if (answer instanceof Set) return new Set([...answer].map(open));
    if (isPlain(answer)) for (const name of Object.keys(answer)) answer[name] = open(answer[name]);
    return answer;
  }

  #opened(stored, failed) {
    try {
      return openValue(stored, this.#dictionaries, this.options.maxRaw);
    } catch (e) {
      if (!(e instanceof EnvelopeError)) throw e;
      const cause = e instanceof DictionaryMissing && failed?.get(numberOf(stored));
      const error = cause ? new DictionaryUnavailable(`${hex(numberOf(stored))}: ${cause.message}`, { cause }) : e;
      error.stored = stored;
      throw error;
    }
  }
}

/** A connection that is opened when something is asked: where a server does not answer another may. */
function whenAsked(connect) {
  let opened;
  const send = async (args) => (await (opened ??= connect())).send(args);
  return { send, close: () => opened?.then((connection) => connection.close(), () => {}) };
}

function numberOf(stored) {
  try {
    return parseHeader(stored).dictionary;
  } catch {
    return 0; // openValue says what is wrong
  }
}

function isPlain(answer) {
  if (!answer || typeof answer !== 'object') return false;
  const prototype = Object.getPrototypeOf(answer);
  return prototype === null || prototype === Object.prototype;
}

function parts(answer) {
  if (answer instanceof Map) return [...answer].flat();
  if (Array.isArray(answer) || answer instanceof Set) return answer;
  return isPlain(answer) ? Object.values(answer) : [];
}
