// node-redis: all commands of a client, those of pipelines and transactions too, are added to its queue. Clients of clusters and of
// Sentinels have such a client for each server, or more: node-redis-many.js.

import { Keeper } from './keeper.js';

const [BLOB_STRING, SIMPLE_STRING, VERBATIM_STRING] = ['$', '+', '='].map((type) => type.charCodeAt(0));
const ELSEWHERE = ['url', 'socket', 'username', 'password', 'credentialsProvider'];

export function attachClient(client, options, parent) {
  const duplicate = client.duplicate.bind(client);
  const keeper = new Keeper({ servers: () => [() => connect(client, duplicate)], username: client.options?.username }, options);
  if (parent) keeper.inherit(parent);
  sealCommands(client, keeper);
  client.duplicate = (overrides) => attached(duplicate(overrides), options, overrides, keeper);
  client.on('connect', () => keeper.start()).on('end', () => keeper.stop());
  return keeper;
}

function attached(copy, options, overrides = {}, keeper) {
  const elsewhere = ELSEWHERE.some((name) => name in overrides);
  attachClient(copy, options, elsewhere ? undefined : keeper).start();
  return copy;
}

/** A connection for questions: one try, answers in buffers, and no words of ours to it. */
export async function connect(client, duplicate = client.duplicate.bind(client)) {
  const socket = { ...client.options?.socket, reconnectStrategy: false };
  const commandOptions = { typeMapping: { [BLOB_STRING]: Buffer } };
  const copy = duplicate({ database: 0, keyPrefix: undefined, clientSideCache: undefined, socket, commandOptions });
  copy.on('error', () => {}); // whoever asks is told
  await copy.connect();
  return { send: (args) => copy.sendCommand(args), close: () => copy.destroy() };
}

export function sealCommands(client, keeper) {
  const queue = client._getQueue();
  const add = queue.addCommand.bind(queue);
  const database = { space: String(client.options?.database ?? 0) };
  queue.addCommand = (args, given) => addSealed(keeper, database, add, args, given);
}

/** The answer, with its envelopes opened, of a command, with its values sealed. */
async function addSealed(keeper, database, add, args, given) {
  const refusal = keeper.refusal(args, database.space);
  if (refusal) return refuse(add, args, given, refusal);
  const typeMapping = given?.typeMapping;
  const name = String(args[0]).toUpperCase();
  const adding = add(keeper.seal(args, database.space), { ...given, typeMapping: inBuffers(typeMapping) });
  const answer = await (name === 'SELECT' ? selected(database, String(args[1]), adding) : adding);
  const decode = typeMapping?.[BLOB_STRING] === Buffer ? (bytes) => bytes : String;
  const opened = await keeper.open(answer, decode, name === 'EXEC');
  return name === 'EXEC' ? unlessFailed(opened) : opened;
}

/** What is sent from now on is for that database, unless the server refuses it. */
async function selected(database, space, answer) {
  const before = database.space;
  database.space = space;
  try {
    return await answer;
  } catch (e) {
    if (database.space === space) database.space = before;
    throw e;
  }
}

/** A transaction must fail as a whole: in one the server gets the command too, without its arguments, which it answers with an error. */
async function refuse(add, args, given, refusal) {
  if (given?.chainId) add([args[0]], given).catch(() => {}); // its answer is not waited for, so that the refusal is the first error
  throw refusal;
}

function inBuffers(typeMapping) {
  const mixed = typeMapping?.[BLOB_STRING] !== Buffer && [SIMPLE_STRING, VERBATIM_STRING].some((type) => typeMapping?.[type] === Buffer);
  if (mixed) throw new TypeError('cinch: a type mapping that has buffers for simple or verbatim strings must have them for blob strings too');
  return { ...typeMapping, [BLOB_STRING]: Buffer };
}

/** The first error of an answer of EXEC that is ours is thrown, with all the replies. */
function unlessFailed(replies) {
  const failed = Array.isArray(replies) && replies.find((reply) => reply instanceof Error && 'stored' in reply);
  if (failed) throw Object.assign(failed, { replies });
  return replies;
}
