// Both clients, in the lines that are in use, against a real server.

import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { Redis } from 'ioredis';
import { Redis as Redis5 } from 'ioredis5';
import { createClient } from 'redis';
import { createClient as createClient5 } from 'redis5';
import * as cinch from '../lib/index.js';
import { RedisServer, lacking } from './servers.mjs';

const CONTENT = Buffer.from('{"id": 1, "name": "Margherita", "price": 7.5, "available": true, "toppings": ["tomato", "mozzarella", "basil"]}'.repeat(3));
const MENU = '{"id": 77, "name": "Marinara", "price": 6.5, "available": true, "toppings": ["tomato", "garlic", "oregano"], "note": "seventy-seven"}';
const RULES = [
  { name: 'peeled', key: 'web:*', types: ['string', 'hash'], min_size: 1, min_gain: 0.999999999, codec: 'zstd', level: 1 },
  { name: 'menus', key: 'menu:*', types: ['string', 'hash', 'stream'], min_size: 64, min_gain: 0.1, codec: 'zstd', level: 3, record: '00112233aabbccdd' },
];

describe('clients', { skip: lacking('redis-server') }, () => {
  let server;
  let dictionary;

  before(async () => (server = await RedisServer.start()));
  after(() => server.stop());
  beforeEach(async () => {
    await server.plain.flushall();
    await server.plain.call('FUNCTION', 'FLUSH');
    dictionary = await server.holdDictionary(CONTENT);
    await server.publish('policy', 1, { format: 1, rules: RULES });
    await server.publish('00112233aabbccdd', 1, { rule: 'menus', current: { dict: dictionary.number.toString(16).padStart(8, '0') } });
  });

  async function assertSealed(key) {
    const stored = await server.plain.getBuffer(key);
    assert.ok(cinch.isSealed(stored), key);
    assert.equal(cinch.parseHeader(stored).dictionary, dictionary.number);
    assert.equal(String(cinch.openValue(stored, new Map([[dictionary.number, dictionary]]))), MENU);
  }

  async function damage(key) {
    const stored = await server.plain.getBuffer(key);
    stored[stored.length - 1] ^= 1;
    await server.plain.set(key, stored);
  }

  for (const [name, Client] of [['ioredis 5', Redis5], ['ioredis 6', Redis]]) {
    test(name, async (t) => {
      const r = await cinch.attach(new Client({ port: server.port }));
      t.after(() => r.disconnect());
      await r.set('menu:1', MENU);
      await r.hset('menu:h', { a: MENU, b: 'short' });
      await assertSealed('menu:1');
      assert.equal(await r.get('menu:1'), MENU);
      assert.ok((await r.getBuffer('menu:1')).equals(Buffer.from(MENU)));
      assert.deepEqual(await r.hgetall('menu:h'), { a: MENU, b: 'short' });
      for (const chain of [() => r.pipeline(), () => r.multi()]) {
        assert.deepEqual(await chain().set('menu:2', MENU).get('menu:2').hgetall('menu:h').exec(), [[null, 'OK'], [null, MENU], [null, { a: MENU, b: 'short' }]]);
      }
      await assert.rejects(r.append('menu:1', 'x'), cinch.Refused);
      await r.set('web:1', MENU.repeat(10)); // gateways seal there and libraries don't: what computes could meet an envelope
      assert.equal(await server.plain.get('web:1'), MENU.repeat(10));
      await assert.rejects(r.append('web:1', 'x'), cinch.Refused);
      await assert.rejects(r.multi().set('other', 'x').append('menu:1', 'x').exec(), /EXECABORT/);
      assert.equal(await server.plain.exists('other'), 0);
      const copy = r.duplicate();
      t.after(() => copy.disconnect());
      await copy.set('menu:3', MENU);
      await assertSealed('menu:3');
      await damage('menu:1');
      await assert.rejects(r.get('menu:1'), cinch.Damaged);
      const answers = await r.multi().get('menu:1').get('menu:3').exec();
      assert.ok(answers[0][0] instanceof cinch.Damaged);
      assert.equal(answers[1][1], MENU);
    });
  }

  for (const [name, create, RESP] of [['redis 5', createClient5, 2], ['redis 6', createClient, 3]]) {
    test(name, async (t) => {
      const r = await cinch.attach(create({ socket: { port: server.port }, RESP }));
      await r.connect();
      t.after(() => r.destroy());
      await r.set('menu:1', MENU);
      await r.hSet('menu:h', { a: MENU, b: 'short' });
      await assertSealed('menu:1');
      assert.equal(await r.get('menu:1'), MENU);
      assert.ok((await r.withTypeMapping({ 36: Buffer }).get('menu:1')).equals(Buffer.from(MENU)));
      assert.deepEqual({ ...(await r.hGetAll('menu:h')) }, { a: MENU, b: 'short' });
      assert.deepEqual(await r.multi().set('menu:2', MENU).get('menu:2').exec(), ['OK', MENU]);
      assert.deepEqual(await r.multi().get('menu:2').execAsPipeline(), [MENU]);
      await assert.rejects(r.append('menu:1', 'x'), cinch.Refused);
      await r.set('web:1', MENU.repeat(10)); // gateways seal there and libraries don't: what computes could meet an envelope
      assert.equal(await server.plain.get('web:1'), MENU.repeat(10));
      await assert.rejects(r.append('web:1', 'x'), cinch.Refused);
      await assert.rejects(r.multi().set('other', 'x').append('menu:1', 'x').exec(), cinch.Refused);
      assert.equal(await server.plain.exists('other'), 0);
      const copy = await r.duplicate().connect();
      t.after(() => copy.destroy());
      await copy.set('menu:3', MENU);
      await assertSealed('menu:3');
      await damage('menu:1');
      await assert.rejects(r.get('menu:1'), cinch.Damaged);
      await assert.rejects(r.multi().get('menu:1').exec(), cinch.Damaged);
      assert.equal(await r.get('menu:3'), MENU);
    });
  }

  for (const [name, Client] of [['ioredis 5', Redis5], ['ioredis 6', Redis]]) {
    const opened = async (t, options) => {
      const r = await cinch.attach(new Client({ port: server.port, ...options }));
      t.after(() => r.disconnect());
      return r;
    };

    test(`${name}: streams`, async (t) => {
      const r = await opened(t);
      const id = await r.xadd('menu:s', 'MAXLEN', '~', 100, '*', 'm', MENU, 'n', 'short');
      await assertStreamSealed('menu:s', id);
      assert.deepEqual(await r.xrange('menu:s', '-', '+'), [[id, ['m', MENU, 'n', 'short']]]);
      assert.deepEqual(await r.xread('COUNT', 1, 'STREAMS', 'menu:s', 0), [['menu:s', [[id, ['m', MENU, 'n', 'short']]]]]);
    });

    test(`${name}: callbacks`, async (t) => {
      const r = await opened(t);
      const called = (start) => new Promise((resolve) => start((error, answer) => resolve([error, answer])));
      assert.deepEqual(await called((then) => r.set('menu:1', MENU, then)), [null, 'OK']);
      await assertSealed('menu:1');
      assert.deepEqual(await called((then) => r.get('menu:1', then)), [null, MENU]);
      assert.ok((await called((then) => r.append('menu:1', 'x', then)))[0] instanceof cinch.Refused);
      for (const chain of [() => r.pipeline(), () => r.multi()]) {
        assert.deepEqual(await called((then) => chain().get('menu:1').exec(then)), [null, [[null, MENU]]]);
      }
      const one = called((then) => r.pipeline().get('menu:1', then).exec());
      assert.deepEqual(await one, [null, MENU]);
      await damage('menu:1');
      assert.ok((await called((then) => r.get('menu:1', then)))[0] instanceof cinch.Damaged);
    });

    test(`${name}: rules of a database`, async (t) => {
      await rulesOfDatabase(1);
      const r = await opened(t);
      await r.set('menu:0', MENU);
      await r.select(1);
      await r.set('menu:1', MENU);
      await r.pipeline().select(0).set('menu:2', MENU).select(1).set('menu:3', MENU).exec();
      const second = await opened(t, { db: 1 });
      await second.set('menu:4', MENU);
      await assertDatabases();
      assert.equal(await r.get('menu:4'), MENU);
    });

    test(`${name}: a database that there is not`, async (t) => {
      await rulesOfDatabase(1);
      const r = await opened(t);
      await assert.rejects(r.select(99), /out of range/);
      await r.set('menu:0', MENU);
      await r.select(1);
      await assert.rejects(r.select(99), /out of range/);
      await r.set('menu:1', MENU);
      await r.select(0);
      await r.set('menu:2', MENU);
      await r.select(1);
      for (const key of ['menu:3', 'menu:4']) await r.set(key, MENU);
      await assertDatabases();
    });

    test(`${name}: a database that there is not, from the beginning`, async (t) => {
      await rulesOfDatabase(0);
      const r = await opened(t, { db: 99 });
      r.on('error', () => {});
      await r.set('menu:1', MENU);
      await assertSealed('menu:1');
    });

    test(`${name}: fields that expire`, async (t) => {
      if (!(await hasHsetex())) return t.skip('HSETEX is of Redis 8');
      const r = await opened(t);
      await r.call('HSETEX', 'menu:h', 'EX', '100', 'FIELDS', '2', 'a', MENU, 'b', 'short');
      await assertFieldSealed('menu:h', 'a');
      assert.deepEqual(await r.call('HGETEX', 'menu:h', 'EX', '100', 'FIELDS', '2', 'a', 'b'), [MENU, 'short']);
    });
  }

  for (const [name, create, RESP] of [['redis 5', createClient5, 2], ['redis 6', createClient, 3]]) {
    const opened = async (t, options) => {
      const r = await cinch.attach(create({ socket: { port: server.port }, RESP, ...options }));
      t.after(() => r.destroy());
      return r.connect();
    };

    test(`${name}: streams`, async (t) => {
      const r = await opened(t);
      const id = await r.xAdd('menu:s', '*', { m: MENU, n: 'short' }, { TRIM: { strategy: 'MAXLEN', strategyModifier: '~', threshold: 100 } });
      await assertStreamSealed('menu:s', id);
      const [entry] = await r.xRange('menu:s', '-', '+');
      assert.deepEqual({ ...entry.message }, { m: MENU, n: 'short' });
      const [stream] = await r.xRead({ key: 'menu:s', id: '0' });
      assert.deepEqual({ ...stream.messages[0].message }, { m: MENU, n: 'short' });
    });

    test(`${name}: rules of a database`, async (t) => {
      await rulesOfDatabase(1);
      const r = await opened(t);
      await r.set('menu:0', MENU);
      await r.select(1);
      await r.set('menu:1', MENU);
      await r.multi().select(0).set('menu:2', MENU).select(1).set('menu:3', MENU).exec();
      const second = await opened(t, { database: 1 });
      await second.set('menu:4', MENU);
      await assertDatabases();
      assert.equal(await r.get('menu:4'), MENU);
    });

    test(`${name}: a database that there is not`, async (t) => {
      await rulesOfDatabase(0);
      const r = await opened(t);
      await assert.rejects(r.sendCommand(['SELECT', '4711']), /out of range/);
      await r.set('menu:1', MENU);
      await assertSealed('menu:1');
    });

    test(`${name}: fields that expire`, async (t) => {
      if (!(await hasHsetex())) return t.skip('HSETEX is of Redis 8');
      const r = await opened(t);
      await r.hSetEx('menu:h', { a: MENU, b: 'short' }, { expiration: { type: 'EX', value: 100 } });
      await assertFieldSealed('menu:h', 'a');
      assert.deepEqual(await r.hGetEx('menu:h', ['a', 'b'], { expiration: { type: 'EX', value: 100 } }), [MENU, 'short']);
    });
  }

  const hasHsetex = async () => (await server.plain.command('INFO', 'hsetex'))[0] !== null;
  const rulesOfDatabase = (space) => server.publish('policy', 2, { format: 1, rules: [{ ...RULES.find((rule) => rule.name === 'menus'), space: String(space) }] });

  async function assertFieldSealed(key, field) {
    assert.ok(cinch.isSealed(await server.plain.hgetBuffer(key, field)), field);
  }

  async function assertStreamSealed(key, id) {
    const [[, [, m, , n]]] = await server.plain.xrangeBuffer(key, id, id);
    assert.equal(cinch.parseHeader(m).dictionary, dictionary.number);
    assert.equal(String(n), 'short');
  }

  /** Of menu:0 to menu:4, 1, 3 and 4 are sealed in database 1; 0 and 2 are in database 0 as they are. */
  async function assertDatabases() {
    for (const key of ['menu:0', 'menu:2']) assert.equal(await server.plain.get(key), MENU);
    await server.plain.select(1);
    for (const key of ['menu:1', 'menu:3', 'menu:4']) await assertSealed(key);
    await server.plain.select(0);
  }
});
