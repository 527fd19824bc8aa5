// The shared scenario for Node: values, replies as text, and the order of the steps. What a
// library does in its own way is in ioredis.cjs and node-redis.cjs.
'use strict';

const crypto = require('node:crypto');
const fs = require('node:fs');

// generator is a linear congruential generator of bytes, the same in every language.
function generator(state) {
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state >>> 24;
  };
}

class Values {
  constructor(scenario) {
    this.scenario = scenario;
    this.saved = {};
  }

  make(spec) {
    if (typeof spec === 'string') return Buffer.from(spec);
    if (spec.v !== undefined) return this.make(this.scenario.values[spec.v]);
    if (spec.concat) return Buffer.concat(spec.concat.map((s) => this.make(s)));
    if (spec.saved) return this.saved[spec.saved] ?? Buffer.from('nothing was saved');
    if (spec.gen === 'repeat') {
      return Buffer.alloc(spec.len, spec.hex ? Buffer.from(spec.hex, 'hex') : spec.text);
    }
    if (spec.gen === 'random') {
      const rand = generator(spec.seed);
      return Buffer.from(Array.from({ length: spec.len }, rand));
    }
    if (spec.gen === 'json') return this.json(spec);
    return Buffer.from(spec.hex, 'hex');
  }

  json(spec) {
    const rand = generator(spec.seed);
    const word = () => this.scenario.words[rand() % this.scenario.words.length];
    let out = '[';
    for (let i = 0; out.length < spec.len; i++) {
      out += `{"id":${i},"name":"${word()} ${word()}","city":"${word()}","score":${rand()},"tags":["${word()}","${word()}"]},`;
    }
    return Buffer.from(out.slice(0, spec.len));
  }

  all(args) {
    return args.map((a) => this.make(a));
  }
}

// show is the byte-exact text of a reply.
function show(x) {
  if (x === null || x === undefined) return 'nil';
  if (x instanceof Error) return `!${x.message}`;
  if (typeof x === 'string') return showBytes(Buffer.from(x));
  if (Buffer.isBuffer(x)) return showBytes(x);
  if (x instanceof Map) return showPairs([...x.entries()].flat());
  if (x instanceof Set) return `~[${[...x].map(show).sort().join(', ')}]`;
  if (Array.isArray(x)) return `[${x.map(show).join(', ')}]`;
  if (typeof x === 'object') return showPairs(Object.entries(x).flat());
  return `${typeof x}:${x}`;
}

function showBytes(b) {
  if (b.length <= 48 && b.every((c) => c >= 0x20 && c < 0x7f)) return `"${b}"`;
  if (b.length <= 24) return `hex:${b.toString('hex')}`;
  return `sha256:${crypto.createHash('sha256').update(b).digest('hex')}/${b.length}`;
}

// flat gives a map's or nested pairs' elements as one list.
function flat(x) {
  if (x instanceof Map) return [...x.entries()].flat();
  return Array.isArray(x) ? x.flat() : Object.entries(x).flat();
}

function showPairs(list) {
  const out = [];
  for (let i = 0; i + 1 < list.length; i += 2) out.push(`${show(list[i])}=>${show(list[i + 1])}`);
  return `{${out.sort().join(', ')}}`;
}

const norms = {
  type: (x) => (Buffer.isBuffer(x) ? 'buffer' : typeof x),
  sign: (x) => (x > 0 ? 'positive' : show(x)),
  count: (x) => `count ${x.length}`,
  sort: (x) => `[${[...x].map(show).sort().join(', ')}]`,
  pairs: (x) => showPairs(flat(x)),
  scan: (x) => norms.sort(x[1]),
  scanpairs: (x) => norms.pairs(x[1]),
};

// expand returns the steps for a protocol version, each "each" spelled out.
function expand(scenario, resp) {
  return scenario.steps
    .filter((step) => (step.resp ?? resp) === resp)
    .flatMap((step) => {
      const names = step.each ? scenario.groups[step.each] : [''];
      return names.map((name) => JSON.parse(JSON.stringify(step).replaceAll('{}', name)));
    });
}

// settle turns a promise's rejection into a reply.
const settle = (promise) => promise.catch((e) => e);

// waitBlocked returns when the server says that a client is blocked. info() gives INFO clients.
async function waitBlocked(info) {
  for (let i = 0; i < 2000; i++) {
    if (/blocked_clients:[1-9]/.test(await info())) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

// main runs every step with library(host, port, resp, values), which has a method for each
// kind of step, and prints one line a step.
async function main(library) {
  const [host, port, resp, path] = process.argv.slice(2);
  const scenario = JSON.parse(fs.readFileSync(path, 'utf8'));
  const values = new Values(scenario);
  const client = await library(host, Number(port), Number(resp), values);
  for (const step of expand(scenario, Number(resp))) {
    console.log(`${step.name}\t${await run(client, step, values)}`);
  }
  await client.close();
}

async function run(client, step, values) {
  if (!step.cmd) {
    const kind = ['pipeline', 'multi', 'block', 'subscribe', 'track'].find((k) => step[k]);
    return show(await settle(client[kind](step)));
  }
  const reply = await settle(client.call(values.all(step.cmd)));
  if (reply instanceof Error) return show(reply);
  if (step.save) values.saved[step.save] = reply;
  return step.norm ? norms[step.norm](reply) : show(reply);
}

module.exports = { main, settle, waitBlocked };
