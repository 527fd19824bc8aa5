// ioredis: all commands of a connection go through its sendCommand, those of pipelines, transactions and clusters too.

import { Keeper } from './keeper.js';

const same = (bytes) => bytes;
const ELSEWHERE = ['host', 'port', 'path', 'username', 'password', 'sentinels', 'name', 'connector'];

/** One connection, or that to the server which Sentinels name. */
export function attachRedis(redis, options, parent) {
  const duplicate = redis.duplicate.bind(redis);
  const keeper = new Keeper({ servers: () => [() => connect(duplicate)], username: redis.options.username }, options);
  if (parent) keeper.inherit(parent);
  sealCommands(redis, keeper);
  redis.duplicate = (override) => attached(duplicate(override), options, override, keeper);
  redis.on('connect', () => keeper.start()).on('end', () => keeper.stop());
  return keeper;
}

function attached(copy, options, override = {}, keeper) {
  const elsewhere = ELSEWHERE.some((name) => name in override);
  attachRedis(copy, options, elsewhere ? undefined : keeper).start();
  return copy;
}

/** The connections to all nodes of a cluster, which share a keeper. */
export function attachCluster(cluster, options) {
  const servers = () => cluster.nodes('master').map((node) => () => connect(node.duplicate.bind(node)));
  const keeper = new Keeper({ servers, username: cluster.options.redisOptions?.username }, options);
  for (const node of cluster.nodes('all')) sealCommands(node, keeper);
  cluster.on('+node', (node) => sealCommands(node, keeper));
  const duplicate = cluster.duplicate.bind(cluster);
  cluster.duplicate = (...overrides) => {
    const copy = duplicate(...overrides);
    attachCluster(copy, options);
    return copy;
  };
  cluster.on('ready', () => keeper.start()).on('end', () => keeper.stop());
  return keeper;
}

/** Resolves when the policy is known, or the cluster does not answer. One that connects later has to be ready first, too. */
export async function startCluster(cluster, keeper) {
  if (cluster.status !== 'ready' && cluster.status !== 'wait') {
    await new Promise((resolve) => ['ready', 'close', 'end'].forEach((event) => cluster.once(event, resolve)));
  }
  if (cluster.status === 'ready') await keeper.start();
}

/** A connection for questions: one try, and no words of ours to it. */
async function connect(duplicate) {
  const once = { retryStrategy: () => null, sentinelRetryStrategy: () => null, maxRetriesPerRequest: 0 };
  const redis = duplicate({ db: 0, keyPrefix: '', lazyConnect: true, ...once });
  redis.on('error', () => {}); // whoever asks is told
  await redis.connect();
  return { send: ([name, ...args]) => redis.callBuffer(name, ...args), close: () => redis.disconnect() };
}

function sealCommands(redis, keeper) {
  const database = new Database(redis);
  const send = redis.sendCommand;
  redis.sendCommand = function (command, stream) {
    if (command.name === 'select') database.asks(command);
    prepare(keeper, command, database.space);
    return send.call(this, command, stream);
  };
}

/** The database of a connection. ioredis says which one it has asked for, but not that the server has refused. */
class Database {
  #redis;
  #stream; // of the connection that is
  #refused; // what was asked for and refused, and where the connection is instead

  constructor(redis) {
    this.#redis = redis;
  }

  get space() {
    const asked = this.#redis.condition?.select ?? this.#redis.options.db ?? 0;
    return asked === this.#refused?.asked ? this.#refused.space : String(asked);
  }

  /** Is told of a SELECT before it is sent. New connections are in database 0. */
  asks(command) {
    const before = this.#stream === this.#redis.stream ? this.space : '0';
    this.#stream = this.#redis.stream;
    const asked = Number(command.args[0]);
    const takes = () => asked === this.#refused?.asked && (this.#refused = undefined);
    const fails = (e) => e.name === 'ReplyError' && (this.#refused = { asked, space: before });
    command.promise.then(takes, fails);
  }
}

const originals = new WeakMap(); // by command: a command may be sent again, on another connection

function prepare(keeper, command, space) {
  const original = originals.get(command) ?? { args: command.args, bufferMode: command.bufferMode };
  originals.set(command, original);
  const args = [command.name, ...original.args];
  const refusal = keeper.refusal(args, space);
  if (refusal) return refuse(command, original, refusal);
  [, ...command.args] = keeper.seal(args, space);
  command.bufferMode = original.bufferMode || command.args.some(Buffer.isBuffer);
  if (command.resolve !== original.resolve) original.resolve = openFirst(keeper, command);
}

/**
 * Pipelines count answers, and a transaction must fail as a whole: so the server gets the command too, without its
 * arguments, which it answers with an error.
 */
function refuse(command, original, refusal) {
  command.args = [];
  if (command.reject === original.reject) return;
  const reject = command.reject;
  original.reject = command.reject = () => reject(refusal);
}

/** Answers are opened before the client makes strings of them. */
function openFirst(keeper, command) {
  const resolve = command.resolve;
  command.resolve = (answer) => {
    try {
      const opened = keeper.open(answer, same, command.name.toLowerCase() === 'exec');
      if (opened instanceof Promise) opened.then(resolve, command.reject);
      else resolve(opened);
    } catch (e) {
      command.reject(e);
    }
  };
  return command.resolve;
}
