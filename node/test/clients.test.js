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
const RULES = [{ name: 'menus', key: 'menu:*', types: ['string', 'hash', 'stream'], min_size: 64, min_gain: 0.1, codec: 'zstd', level: 3, record: '00112233aabbccdd' }];

describe('clients', { skip: lacking('redis-server') }, () => {
  let server;
  let dictionary;

  before(async () => (server = await RedisServer.start()));
  after(() => server.stop());
  beforeEach(async () => {
    await server.plain.flushall();
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
});
