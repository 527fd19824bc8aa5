// What both clients learn from a store: its policy, in records or in keys, and its dictionaries.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { afterEach, describe, test } from 'node:test';
import { Redis } from 'ioredis';
import { createClient } from 'redis';
import * as cinch from '../lib/index.js';
import { RedisServer, lacking } from './servers.mjs';

const CONTENT = Buffer.from('{"id": 1, "name": "Margherita", "price": 7.5, "available": true, "toppings": ["tomato", "mozzarella", "basil"]}'.repeat(3));
const OTHER = Buffer.from('{"note": "ask before midday", "toppings": ["artichokes", "capers", "olives"], "id": 5, "name": "Capricciosa"}'.repeat(3));
const MENU = '{"id": 77, "name": "Marinara", "price": 6.5, "available": true, "toppings": ["tomato", "garlic", "oregano"]}'.repeat(4);
const RECORD = '00112233aabbccdd';
const RULE = { name: 'menus', key: 'menu:*', types: ['string', 'hash', 'stream'], min_size: 64, min_gain: 0.1, codec: 'zstd', level: 3, record: RECORD };
const NEVER = 1e9; // ms

const hex = (dictionary) => dictionary.number.toString(16).padStart(8, '0');
const current = (dictionary) => ({ rule: 'menus', current: { dict: hex(dictionary) } });
const loginRecord = (login) => createHash('sha256').update(`${RECORD} ${login}`).digest('hex').slice(0, 16);

/** What gateways leave in a server with functions. */
const functions = {
  args: [],
  rights: ['+function|list'],
  hold: (server, content) => server.holdDictionary(content),
  publish: (server, name, version, document) => server.publish(name, version, document),
  retire: (server, dictionary) => server.load(`#!lua name=cinch_retired_${hex(dictionary)}\nredis.register_function('cinch_retired_${hex(dictionary)}', function() return 1 end)\n`),
};

/** And in one without. */
const keys = {
  args: ['--rename-command', 'FUNCTION', ''],
  rights: [],
  hold: async (server, content) => {
    const dictionary = new cinch.Dictionary(content);
    await server.plain.set(`cinch:dict:${hex(dictionary)}`, content);
    return dictionary;
  },
  publish: (server, name, version, document) => server.plain.set(`cinch:dict:rule:${name}`, `${version} ${JSON.stringify(document)}`),
  retire: (server, dictionary) => server.plain.set(`cinch:dict:retired:${hex(dictionary)}`, '1'),
};

/** Both clients' ways to the same few commands. */
const ioredis = {
  name: 'ioredis',
  async open(port, { username, password } = {}, options = {}) {
    const r = await cinch.attach(new Redis({ port, username, password }), options);
    return { set: (...args) => r.set(...args), get: (key) => r.get(key), close: () => r.disconnect() };
  },
};
const nodeRedis = {
  name: 'node-redis',
  async open(port, { username, password } = {}, options = {}) {
    const r = await cinch.attach(createClient({ socket: { port }, username, password }), options);
    await r.connect();
    return { set: (...args) => r.set(...args), get: (key) => r.get(key), close: () => r.destroy() };
  },
};

describe('a store', { skip: lacking('redis-server') }, () => {
  let server;
  const ends = []; // what to do when a test is over, last first

  afterEach(async () => {
    while (ends.length) await ends.pop()();
  });

  /** A server on which gateways agreed on a rule and a dictionary. Resolves to the dictionary. */
  async function agreed(way, rule = RULE) {
    server = await RedisServer.start(...way.args);
    ends.push(() => server.stop());
    const dictionary = await way.hold(server, CONTENT);
    await way.publish(server, 'policy', 1, { format: 1, rules: [rule], exclude: ['menu:lock'] });
    await way.publish(server, RECORD, 1, current(dictionary));
    return dictionary;
  }

  async function opened(client, user, options) {
    const r = await client.open(server.port, user, options);
    ends.push(r.close);
    return r;
  }

  async function assertNames(key, dictionary) {
    const stored = await server.plain.getBuffer(key);
    assert.ok(cinch.isSealed(stored), key);
    assert.equal(cinch.parseHeader(stored).dictionary, dictionary?.number ?? 0, key);
  }

  for (const [where, way] of Object.entries({ functions, keys })) {
    for (const client of [ioredis, nodeRedis]) {
      test(`${client.name}: the policy in ${where}, and a dictionary that is replaced`, async () => {
        const first = await agreed(way);
        const r = await opened(client);
        for (const key of ['menu:1', 'menu:lock', 'other']) await r.set(key, MENU);
        await assertNames('menu:1', first);
        for (const key of ['menu:lock', 'other']) assert.equal(await server.plain.get(key), MENU);
        const second = await way.hold(server, OTHER);
        await way.publish(server, RECORD, 2, current(second));
        const later = await opened(client);
        await later.set('menu:2', MENU);
        await assertNames('menu:2', second);
        for (const key of ['menu:1', 'menu:2']) for (const by of [r, later]) assert.equal(await by.get(key), MENU);
      });

      test(`${client.name}: a retired dictionary in ${where}`, async () => {
        const dictionary = await agreed(way);
        await (await opened(client)).set('menu:1', MENU);
        await way.retire(server, dictionary);
        const r = await opened(client);
        await r.set('menu:2', MENU);
        await assertNames('menu:1', dictionary);
        await assertNames('menu:2', undefined);
        for (const key of ['menu:1', 'menu:2']) assert.equal(await r.get(key), MENU);
      });

      test(`${client.name}: a login of its own, with few rights, and ${where}`, async () => {
        const ofDefault = await agreed(way);
        const ofApp = await way.hold(server, OTHER);
        await way.publish(server, loginRecord('app'), 1, current(ofApp));
        const rights = ['+get', '+set', '+exists', ...way.rights];
        await server.plain.call('ACL', 'SETUSER', 'app', 'on', '>secret', '~menu:*', '%R~cinch:*', ...rights);
        const app = await opened(client, { username: 'app', password: 'secret' });
        await app.set('menu:1', MENU);
        await assertNames('menu:1', ofApp);
        await (await opened(client, { username: 'default', password: '' })).set('menu:2', MENU);
        await assertNames('menu:2', ofDefault);
        for (const key of ['menu:1', 'menu:2']) assert.equal(await app.get(key), MENU);
      });

      test(`${client.name}: a dictionary that came later, by ${where}`, async () => {
        await agreed(way);
        const r = await opened(client, {}, { refresh: NEVER });
        const dictionary = await way.hold(server, OTHER);
        const sealed = cinch.sealValue(Buffer.from(MENU), { dictionary });
        for (let i = 0; i < 10; i++) await server.plain.set(`menu:${i}`, sealed);
        await server.plain.set('menu:none', cinch.sealValue(Buffer.from(MENU), { dictionary: new cinch.Dictionary(Buffer.from(MENU)) }));
        const answers = await Promise.all(Array.from({ length: 10 }, (_, i) => r.get(`menu:${i}`)));
        assert.deepEqual(answers, Array(10).fill(MENU));
        await assert.rejects(r.get('menu:none'), cinch.DictionaryMissing);
      });
    }
  }

  test('node-redis: a login that a function gives', async () => {
    await agreed(functions);
    const ofApp = await functions.hold(server, OTHER);
    await functions.publish(server, loginRecord('app'), 1, current(ofApp));
    await server.plain.call('ACL', 'SETUSER', 'app', 'on', '>secret', '~*', '+@all');
    const credentials = async () => ({ username: 'app', password: 'secret' });
    const r = await cinch.attach(createClient({ socket: { port: server.port }, credentialsProvider: { type: 'async-credentials-provider', credentials } }));
    ends.push(() => r.destroy());
    await r.connect();
    await r.set('menu:1', MENU);
    await assertNames('menu:1', ofApp);
  });

  for (const client of [ioredis, nodeRedis]) {
    test(`${client.name}: a rule whose dictionaries are shared by logins`, async () => {
      const dictionary = await agreed(functions, { ...RULE, shared: true });
      await server.plain.call('ACL', 'SETUSER', 'app', 'on', '>secret', '~*', '+@all');
      const app = await opened(client, { username: 'app', password: 'secret' });
      await app.set('menu:1', MENU);
      await assertNames('menu:1', dictionary);
    });

    test(`${client.name}: a dictionary that can't be had now`, async () => {
      await agreed(functions);
      await server.plain.call('ACL', 'SETUSER', 'app', 'on', '>secret', '~*', '+@all');
      const app = await opened(client, { username: 'app', password: 'secret' });
      const stored = cinch.sealValue(Buffer.from(MENU), { dictionary: await server.holdDictionary(OTHER) });
      await server.plain.set('menu:1', stored);
      await server.plain.call('ACL', 'SETUSER', 'app', '-function|list');
      await assert.rejects(app.get('menu:1'), (e) => e instanceof cinch.DictionaryUnavailable && e.stored.equals(stored));
      await server.plain.call('ACL', 'SETUSER', 'app', '+function|list');
      assert.equal(await app.get('menu:1'), MENU);
    });

    test(`${client.name}: a dictionary is named for two minutes after the last answer`, async (t) => {
      let now = 1000;
      t.mock.method(performance, 'now', () => now);
      const dictionary = await agreed(functions);
      const r = await opened(client, {}, { refresh: NEVER });
      now += 119_999;
      await r.set('menu:1', MENU);
      now += 1;
      await r.set('menu:2', MENU);
      t.mock.restoreAll();
      await assertNames('menu:1', dictionary);
      await assertNames('menu:2', undefined);
      for (const key of ['menu:1', 'menu:2']) assert.equal(await r.get(key), MENU);
    });
  }
});
