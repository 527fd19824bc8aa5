// Real servers for tests.

import { spawn, spawnSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { once } from 'node:events';
import { setTimeout } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { Dictionary } from '../lib/index.js';
import * as zstd from '../lib/zstd.js';

const hex = (n, digits) => n.toString(16).padStart(digits, '0');

/** Why a test of real servers is skipped; undefined where all programs are there. In CI it is not skipped. */
export function lacking(...programs) {
  const missing = programs.find((program) => spawnSync(program, ['--version']).error);
  if (!missing) return undefined;
  const hint = missing === 'redis-server' ? ': scripts/servers install' : '';
  if (process.env.CI) throw new Error(`${missing} is missing${hint}`);
  return `${missing} is not installed${hint}`;
}

/** One below those that the system gives to clients, with the one for a cluster's bus, which is 10000 higher. */
async function freePort() {
  for (;;) {
    const port = randomInt(11000, 20000);
    if ((await isFree(port)) && (await isFree(port + 10000))) return port;
  }
}

async function isFree(port) {
  const server = createServer().listen(port, '127.0.0.1');
  try {
    await once(server, 'listening');
  } catch {
    return false;
  }
  server.close();
  await once(server, 'close');
  return true;
}

/** Waits for what servers do by themselves; an error that clients are told meanwhile is no end of it. */
export async function until(condition) {
  let last;
  for (const end = Date.now() + 120_000; Date.now() < end; await setTimeout(50)) {
    try {
      if (await condition()) return;
    } catch (e) {
      last = e;
    }
  }
  throw new Error('never came true', { cause: last });
}

function library(name, description, answer, comment = '') {
  return `#!lua name=${name}
-- ${comment}
redis.register_function{function_name = '${name}', description = ${description}, flags = {'no-writes'}, callback = function() return ${answer} end}
`;
}

/** A Redis server of the machine, on a port of its own. */
export class RedisServer {
  /** Two primaries that share the slots. */
  static async startCluster() {
    const nodes = await Promise.all([1, 2].map(() => RedisServer.start('--cluster-enabled', 'yes', '--cluster-node-timeout', '2000')));
    await nodes[0].plain.call('CLUSTER', 'ADDSLOTSRANGE', 0, 8191);
    await nodes[1].plain.call('CLUSTER', 'ADDSLOTSRANGE', 8192, 16383);
    await nodes[1].plain.call('CLUSTER', 'SET-CONFIG-EPOCH', 2);
    await nodes[0].plain.call('CLUSTER', 'MEET', '127.0.0.1', nodes[1].port);
    for (const node of nodes) await until(async () => /cluster_state:ok/.test(await node.plain.cluster('INFO')));
    return nodes;
  }

  /** A Sentinel that watches a primary by the name m, and knows its replica. */
  static async startSentinel(primary) {
    const config = join(mkdtempSync(join(tmpdir(), 'cinch-sentinel-')), 'sentinel.conf');
    writeFileSync(config, `sentinel monitor m 127.0.0.1 ${primary.port} 1\nsentinel down-after-milliseconds m 500\nsentinel failover-timeout m 3000\n`);
    const sentinel = await RedisServer.start(config, '--sentinel');
    await until(async () => (await sentinel.plain.call('SENTINEL', 'REPLICAS', 'm')).some((replica) => /ok/.test(replica[replica.indexOf('master-link-status') + 1])));
    return sentinel;
  }

  static async start(...args) {
    const server = new RedisServer();
    server.directory = mkdtempSync(join(tmpdir(), 'cinch-node-'));
    server.port = await freePort();
    server.process = spawn('redis-server', [...args, '--port', String(server.port), '--save', '', '--dir', server.directory], { stdio: 'ignore' });
    server.plain = new Redis({ port: server.port, retryStrategy: () => 50 });
    server.plain.on('error', () => {}); // until it listens
    await server.plain.ping();
    return server;
  }

  async stop() {
    this.plain.disconnect();
    if (this.process.kill()) await once(this.process, 'exit');
    rmSync(this.directory, { recursive: true });
  }

  /** Stores a dictionary as gateways do. */
  async holdDictionary(content) {
    const dictionary = new Dictionary(content);
    const frame = Buffer.concat([zstd.MAGIC, zstd.compress(content, 3)]);
    await this.load(library(`cinch_dict_${hex(dictionary.number, 8)}`, "''", '0', `zstd ${content.length} ${frame.toString('base64')}`));
    return dictionary;
  }

  /** Publishes a record as gateways do. */
  publish(name, version, document) {
    return this.load(library(`cinch_rule_${name}_${hex(version, 16)}`, `[==[${JSON.stringify(document)}]==]`, '0'));
  }

  load(code) {
    return this.plain.call('FUNCTION', 'LOAD', 'REPLACE', code);
  }
}
