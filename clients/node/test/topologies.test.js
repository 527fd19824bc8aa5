// Both clients where there is more than one server: Redis Cluster, and Sentinel with a failover.

import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { Cluster, Redis } from 'ioredis';
import { Cluster as Cluster5, Redis as Redis5 } from 'ioredis5';
import { createCluster, createSentinel } from 'redis';
import { createCluster as createCluster5, createSentinel as createSentinel5 } from 'redis5';
import * as cinch from '../lib/index.js';
import { RedisServer, lacking, until } from './servers.mjs';

const CONTENT = Buffer.from('{"id": 1, "name": "Margherita", "price": 7.5, "available": true, "toppings": ["tomato", "mozzarella", "basil"]}'.repeat(3));
const OTHER = Buffer.from('{"note": "ask before midday", "toppings": ["artichokes", "capers", "olives"], "id": 5, "name": "Capricciosa"}'.repeat(3));
const MENU = '{"id": 77, "name": "Marinara", "price": 6.5, "available": true, "toppings": ["tomato", "garlic", "oregano"]}'.repeat(4);
const RECORD = '00112233aabbccdd';
const RULES = [{ name: 'menus', key: 'menu:*', types: ['string', 'hash', 'stream'], min_size: 64, min_gain: 0.1, codec: 'zstd', level: 3, record: RECORD }];
const KEYS = Array.from({ length: 20 }, (_, i) => `menu:${i}`);
const NEVER = 1e9; // ms

const hex = (n) => n.toString(16).padStart(8, '0');
const current = (dictionary) => ({ rule: 'menus', current: { dict: hex(dictionary.number) } });

/** What gateways leave in a server. */
async function agree(server) {
  const dictionary = await server.holdDictionary(CONTENT);
  await server.publish('policy', 1, { format: 1, rules: RULES });
  await server.publish(RECORD, 1, current(dictionary));
  return dictionary;
}

async function assertNames(server, key, dictionary) {
  const stored = await server.plain.getBuffer(key);
  assert.ok(cinch.isSealed(stored), key);
  assert.equal(cinch.parseHeader(stored).dictionary, dictionary?.number ?? 0, key);
}

/** All ways to the same few commands. A pipeline's keys have one slot. */
const ofIoredis = (name, { Cluster, Redis }) => ({
  name,
  redirectsPipelines: true,
  cluster: (port) => new Cluster([{ port, host: '127.0.0.1' }]),
  sentinel: (port) => new Redis({ sentinels: [{ port, host: '127.0.0.1' }], name: 'm', sentinelRetryStrategy: () => 50 }),
  open: async (r) => r,
  pipeline: async (r, keys) => (await keys.reduce((p, key) => p.set(key, MENU).get(key), r.pipeline()).exec()).map(([error, answer]) => error ?? answer),
  transaction: async (r, key) => (await r.multi().set(key, MENU).get(key).exec()).map(([error, answer]) => error ?? answer),
  close: (r) => r.disconnect(),
});
const ofNodeRedis = (name, { createCluster, createSentinel }) => ({
  name,
  cluster: (port) => createCluster({ rootNodes: [{ socket: { port } }] }).on('error', () => {}),
  sentinel: (port) => createSentinel({ name: 'm', sentinelRootNodes: [{ host: '127.0.0.1', port }], scanInterval: 100 }).on('error', () => {}),
  open: (r) => r.connect(),
  pipeline: async (r, keys) => (await Promise.all(keys.map((key) => r.multi().set(key, MENU).get(key).execAsPipeline()))).flat(),
  transaction: (r, key) => r.multi().set(key, MENU).get(key).exec(),
  close: (r) => r.destroy(),
});
const clients = [
  ofIoredis('ioredis 5', { Cluster: Cluster5, Redis: Redis5 }),
  ofIoredis('ioredis 6', { Cluster, Redis }),
  ofNodeRedis('redis 5', { createCluster: createCluster5, createSentinel: createSentinel5 }),
  ofNodeRedis('redis 6', { createCluster, createSentinel }),
];

const ends = []; // what to do when a test is over, last first

afterEach(async () => {
  while (ends.length) await ends.pop()();
});

async function opened(client, made, options) {
  const r = await client.open(await cinch.attach(made, options));
  ends.push(() => client.close(r));
  return r;
}

describe('a cluster', { skip: lacking('redis-server') }, () => {
  let nodes;
  let dictionary;

  beforeEach(async () => {
    nodes = await RedisServer.startCluster();
    ends.push(...nodes.map((node) => () => node.stop()));
    for (const node of nodes) dictionary = await agree(node);
  });

  async function assertAllName(dictionary) {
    for (const node of nodes) {
      const keys = await node.plain.keys('menu:*');
      assert.ok(keys.length > 0, 'each node has some');
      for (const key of keys) await assertNames(node, key, dictionary);
    }
  }

  for (const client of clients) {
    test(`${client.name}: values on all nodes`, async () => {
      const r = await opened(client, client.cluster(nodes[0].port));
      await Promise.all(KEYS.slice(0, 10).map((key) => r.set(key, MENU)));
      assert.deepEqual(await client.transaction(r, 'menu:t'), ['OK', MENU]);
      const [a, b] = ['{1}', '{1}'].map((tag, i) => `menu:${tag}${i}`);
      assert.deepEqual(await client.pipeline(r, [a, b]), ['OK', MENU, 'OK', MENU]);
      await assertAllName(dictionary);
      assert.deepEqual(await Promise.all(KEYS.slice(0, 10).map((key) => r.get(key))), Array(10).fill(MENU));
      await assert.rejects(r.append('menu:1', 'x'), cinch.Refused);
      assert.equal(await r.get('menu:1'), MENU);
      const copy = await client.open(r.duplicate());
      ends.push(() => client.close(copy));
      await until(async () => (await copy.set('menu:1', MENU)) && cinch.isSealed(await (await owner('menu:1')).plain.getBuffer('menu:1')));
      assert.equal(await copy.get('menu:1'), MENU);
    });

    test(`${client.name}: dictionaries that all primaries have`, async () => {
      const next = await nodes[0].holdDictionary(OTHER);
      await nodes[0].publish(RECORD, 2, current(next));
      const before = await opened(client, client.cluster(nodes[0].port), { refresh: NEVER });
      for (const key of KEYS) await before.set(key, MENU);
      await assertAllName(undefined);
      await nodes[1].holdDictionary(OTHER);
      const after = await opened(client, client.cluster(nodes[0].port));
      for (const key of KEYS) await after.set(key, MENU);
      await assertAllName(next);
      assert.deepEqual(await Promise.all(KEYS.map((key) => before.get(key))), Array(20).fill(MENU));
    });

    test(`${client.name}: a dictionary that another primary has, and one that nobody has`, async () => {
      const r = await opened(client, client.cluster(nodes[0].port), { refresh: NEVER });
      const there = await nodes[1].holdDictionary(OTHER);
      for (const key of KEYS) await (await owner(key)).plain.set(key, cinch.sealValue(Buffer.from(MENU), { dictionary: there }));
      assert.deepEqual(await Promise.all(KEYS.map((key) => r.get(key))), Array(20).fill(MENU));
      await (await owner('menu:none')).plain.set('menu:none', cinch.sealValue(Buffer.from(MENU), { dictionary: new cinch.Dictionary(Buffer.from(MENU)) }));
      await assert.rejects(r.get('menu:none'), cinch.DictionaryMissing);
    });

    test(`${client.name}: slots that move`, async () => {
      const r = await opened(client, client.cluster(nodes[0].port));
      await r.set('menu:1', MENU);
      const from = await owner('menu:1');
      const to = nodes.find((node) => node !== from);
      await moveSlot(from, to, 'menu:1');
      assert.equal(await r.get('menu:1'), MENU);
      await r.set('menu:1', MENU);
      await assertNames(to, 'menu:1', dictionary);
      await moveSlot(to, from, 'menu:1');
      if (client.redirectsPipelines) assert.deepEqual(await client.pipeline(r, ['menu:1']), ['OK', MENU]);
      await r.set('menu:1', MENU);
      await assertNames(from, 'menu:1', dictionary);
      assert.equal(await r.get('menu:1'), MENU);
    });
  }

  async function owner(key) {
    const slot = await nodes[0].plain.cluster('KEYSLOT', key);
    for (const [first, last, [, port]] of await nodes[0].plain.cluster('SLOTS')) {
      if (slot >= first && slot <= last) return nodes.find((node) => node.port === port);
    }
    throw new Error(`nobody has slot ${slot}`);
  }

  /** Moves a key's slot, with that key in it. */
  async function moveSlot(from, to, key) {
    const slot = await from.plain.cluster('KEYSLOT', key);
    const [source, target] = [await from.plain.cluster('MYID'), await to.plain.cluster('MYID')];
    await to.plain.cluster('SETSLOT', slot, 'IMPORTING', source);
    await from.plain.cluster('SETSLOT', slot, 'MIGRATING', target);
    await from.plain.migrate('127.0.0.1', to.port, key, 0, 5000);
    for (const node of [to, from]) await node.plain.cluster('SETSLOT', slot, 'NODE', target);
    for (const node of nodes) await until(async () => (await node.plain.cluster('SLOTS')).some(([first, last, [, port]]) => slot >= first && slot <= last && port === to.port));
  }
});

describe('Sentinel', { skip: lacking('redis-server') }, () => {
  for (const client of clients) {
    test(`${client.name}: a failover`, async () => {
      const primary = await RedisServer.start();
      const dictionary = await agree(primary);
      const replica = await RedisServer.start('--replicaof', `127.0.0.1 ${primary.port}`);
      const sentinel = await RedisServer.startSentinel(primary);
      ends.push(() => sentinel.stop(), () => replica.stop(), () => primary.stop());
      const r = await opened(client, client.sentinel(sentinel.port), { refresh: 50 });
      r.on('error', () => {});
      await r.set('menu:1', MENU);
      assert.deepEqual(await client.transaction(r, 'menu:t'), ['OK', MENU]);
      await assertNames(primary, 'menu:1', dictionary);
      await until(() => replica.plain.exists('menu:t'));

      primary.process.kill('SIGKILL');
      await until(async () => (await r.set('menu:2', MENU)) && (await replica.plain.exists('menu:2')));
      await assertNames(replica, 'menu:2', dictionary);
      assert.equal(await r.get('menu:1'), MENU);
      const next = await replica.holdDictionary(OTHER);
      await replica.publish(RECORD, 2, current(next));
      await until(async () => (await r.set('menu:3', MENU)) && cinch.parseHeader(await replica.plain.getBuffer('menu:3')).dictionary === next.number);
      assert.equal(await r.get('menu:3'), MENU);
    });
  }

  for (const client of clients.filter((client) => client.name.startsWith('redis'))) {
    test(`${client.name}: a client of one's own`, async () => {
      const primary = await RedisServer.start();
      const dictionary = await agree(primary);
      const replica = await RedisServer.start('--replicaof', `127.0.0.1 ${primary.port}`);
      const sentinel = await RedisServer.startSentinel(primary);
      ends.push(() => sentinel.stop(), () => replica.stop(), () => primary.stop());
      const r = await opened(client, client.sentinel(sentinel.port), { refresh: NEVER });
      await r.use(async (lease) => {
        await lease.set('menu:1', MENU);
        await assertNames(primary, 'menu:1', dictionary);
        const later = await primary.holdDictionary(OTHER);
        await primary.plain.set('menu:2', cinch.sealValue(Buffer.from(MENU), { dictionary: later }));
        assert.equal(await lease.get('menu:2'), MENU);
      });
      const lease = await r.acquire();
      await lease.watch('menu:1');
      assert.deepEqual(await client.transaction(lease, 'menu:1'), ['OK', MENU]);
      await lease.release();
    });
  }
});
