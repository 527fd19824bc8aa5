// ioredis: all commands of a connection go through its sendCommand, those of pipelines and transactions too.

import { Keeper } from './keeper.js';

const same = (bytes) => bytes;
const ELSEWHERE = ['host', 'port', 'path', 'username', 'password', 'sentinels', 'name', 'connector'];

/** One connection. */
export function attachRedis(redis, options, parent) {
  const duplicate = redis.duplicate.bind(redis);
  const keeper = new Keeper({ connect: () => connect(duplicate), username: redis.options.username }, options);
  if (parent) keeper.inherit(parent);
  const send = redis.sendCommand;
  redis.sendCommand = function (command, stream) {
    keeper.space = String(this.condition?.select ?? this.options.db ?? 0);
    prepare(keeper, command);
    return send.call(this, command, stream);
  };
  redis.duplicate = (override) => attached(duplicate(override), options, override, keeper);
  redis.on('connect', () => keeper.start()).on('end', () => keeper.stop());
  return keeper;
}

function attached(copy, options, override = {}, keeper) {
  const elsewhere = ELSEWHERE.some((name) => name in override);
  attachRedis(copy, options, elsewhere ? undefined : keeper).start();
  return copy;
}

/** A connection for questions: one try, and no words of ours to it. */
async function connect(duplicate) {
  const redis = duplicate({ db: 0, keyPrefix: '', lazyConnect: true, retryStrategy: () => null, maxRetriesPerRequest: 0 });
  redis.on('error', () => {}); // whoever asks is told
  await redis.connect();
  return { send: ([name, ...args]) => redis.callBuffer(name, ...args), close: () => redis.disconnect() };
}

const originals = new WeakMap(); // by command: a command may be sent again, on another connection

function prepare(keeper, command) {
  const original = originals.get(command) ?? { args: command.args, bufferMode: command.bufferMode };
  originals.set(command, original);
  const args = [command.name, ...original.args];
  const refusal = keeper.refusal(args);
  if (refusal) return refuse(command, original, refusal);
  [, ...command.args] = keeper.seal(args);
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
