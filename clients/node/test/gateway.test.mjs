// A gateway and the library on one server: each reads what the other wrote, while dictionaries are trained and replaced.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Redis } from 'ioredis';
import { createClient } from 'redis';
import * as cinch from '../lib/index.js';
import { RedisServer, lacking } from './servers.mjs';

const ROOT = join(import.meta.dirname, '../../..');
const DEADLINE = 180_000; // ms until each dictionary
const config = (socket, port) => `
admin: {listen: off}
training: {min_samples: 1500, interval: 50ms, poll: 50ms, drift: 15%, cpu: 99%}
gateways:
  - {name: g, protocol: redis, listen: "unix:${socket}", upstream: "redis://127.0.0.1:${port}", rules: [{name: docs, key: "doc:*", setting: zstd-3, dictionary: auto}]}
`;

const oneOf = (...words) => words[randomInt(words.length)];
const random = () => randomInt(2 ** 32).toString(16).padStart(8, '0');

function order() {
  const customer = { id: randomInt(1e6), tier: oneOf('gold', 'silver') };
  const status = oneOf('shipped', 'pending', 'cancelled');
  return JSON.stringify({ order_id: random(), customer, status, total: randomInt(5e4) / 100, created_at: `2026-0${randomInt(1, 10)}-11T10:00:00Z` });
}

function reading() {
  const place = { battery: 'discharging', building: 'headquarters', measuredAtUnix: 1790000000 + randomInt(1e7) };
  return JSON.stringify({ sensorSerial: random(), celsius: randomInt(40), humidityPercent: randomInt(100), ...place });
}

async function connected(client) {
  client.on('error', () => {}); // commands say it
  await client.connect();
  return client;
}

/** One of each client, with the library. */
async function library(port, options) {
  const ioredis = await cinch.attach(new Redis({ port, lazyConnect: true }), options);
  const nodeRedis = await cinch.attach(createClient({ socket: { port } }), options);
  return { ioredis: await connected(ioredis), 'node-redis': await connected(nodeRedis) };
}

const mget = (client, keys) => (client instanceof Redis ? client.mget(keys) : client.mGet(keys));

describe('a gateway', { skip: lacking('redis-server', 'go') }, () => {
  let directory, server, gateway, through, clients;
  const opened = [];
  const values = new Map();

  before(async () => {
    directory = mkdtempSync(join(tmpdir(), 'cinch-node-'));
    execFileSync('go', ['build', '-o', join(directory, 'cinch'), './cmd/cinch'], { cwd: ROOT, stdio: 'inherit' });
    server = await RedisServer.start();
    await serve();
    clients = { gateway: through, ...(await library(server.port, { refresh: 50 })) };
    opened.push(...Object.values(clients));
  });

  after(async () => {
    for (const client of opened) client.disconnect ? client.disconnect() : client.destroy();
    if (gateway?.exitCode === null && gateway.kill()) await once(gateway, 'exit');
    await server?.stop();
    rmSync(directory, { recursive: true });
  });

  /** Starts the gateway and connects to it. One that ends meanwhile says why. */
  async function serve() {
    const [path, file, log] = ['gateway', 'cinch.yaml', 'log'].map((name) => join(directory, name));
    writeFileSync(file, config(path, server.port));
    gateway = spawn(join(directory, 'cinch'), ['serve', '--config', file], { stdio: ['ignore', 'ignore', openSync(log, 'w')] });
    const ended = once(gateway, 'exit').then(() => assert.fail(readFileSync(log, 'utf8')));
    ended.catch(() => {}); // also when the test ends it
    through = new Redis({ path, retryStrategy: () => 50, maxRetriesPerRequest: null });
    through.on('error', () => {}); // until it listens
    await Promise.race([through.ping(), ended]);
  }

  async function dictionaryOf(key) {
    const stored = await server.plain.getBuffer(key);
    return cinch.isSealed(stored) ? cinch.parseHeader(stored).dictionary : 0;
  }

  /** Writes by one client until its values name another dictionary than those that were, and resolves to that. */
  async function writeUntil(by, make, were) {
    const end = performance.now() + DEADLINE;
    for (let i = 1; performance.now() < end; i++) {
      const key = `doc:${make.name}:${by}:${i}`;
      values.set(key, make());
      await clients[by].set(key, values.get(key));
      const number = i % 100 ? 0 : await dictionaryOf(key);
      if (number && !were.includes(number)) return number;
    }
    return assert.fail(`${by}: no new dictionary`);
  }

  /** Resolves to the dictionaries that the clients named in the end. */
  function allWriteUntil(make, were) {
    return Promise.all(Object.keys(clients).map((by) => writeUntil(by, make, were)));
  }

  /** Reads by one client what all of them write, until it is told to end. Resolves to how much it read. */
  async function readUntil(client, ended) {
    let read = 0;
    for (; !ended.aborted; await new Promise(setImmediate)) {
      const all = [...values.keys()];
      const keys = all.length ? Array.from({ length: 20 }, () => oneOf(...all.slice(-2000))) : ['doc:none'];
      const got = await mget(client, keys);
      got.forEach((value, i) => value === null || assert.equal(value, values.get(keys[i]), keys[i]));
      read += got.filter((value) => value !== null).length;
    }
    return read;
  }

  async function assertAllReads(name, client) {
    const all = [...values.keys()];
    for (let i = 0; i < all.length; i += 1000) {
      const keys = all.slice(i, i + 1000);
      assert.deepEqual(await mget(client, keys), keys.map((key) => values.get(key)), name);
    }
  }

  test('reads what the clients write, and they what it writes', async () => {
    const ending = new AbortController();
    const readers = Promise.all(Object.values(clients).map((client) => readUntil(client, ending.signal)));
    const writers = writeBoth().finally(() => ending.abort());
    const [read] = await Promise.all([readers, writers]);
    assert.ok(read.every((n) => n > 0), `${read}`);
    const fresh = await library(server.port);
    opened.push(...Object.values(fresh));
    for (const [name, client] of Object.entries({ gateway: through, ...fresh })) await assertAllReads(name, client);
  });

  async function writeBoth() {
    const first = await allWriteUntil(order, []);
    await allWriteUntil(reading, first);
  }
});
