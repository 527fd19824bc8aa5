// Brings Cinch to a client, whichever it is.

import { DEFAULT_MAX_RAW } from './envelope.js';
import { attachCluster as attachRedisCluster, attachRedis, startCluster } from './ioredis.js';
import { attachCluster, attachSentinel } from './node-redis-many.js';
import { attachClient } from './node-redis.js';

const REFRESH = 30_000; // ms

const warn = (message) => process.emitWarning(message, 'CinchWarning');
const has = (client, method) => typeof client?.[method] === 'function';

/**
 * Has a client seal and open values from now on. Resolves to it when the policy is known, or could not be had: then
 * nothing is sealed until it can. What the client's user needs besides its own rights, the README says.
 */
export async function attach(client, { refresh = REFRESH, maxRaw = DEFAULT_MAX_RAW } = {}) {
  const options = { refresh, maxRaw, warn };
  if (client?.isCluster && has(client, 'nodes')) await startCluster(client, attachRedisCluster(client, options));
  else if (client?.commandQueue) await attachRedis(client, options).start();
  else if (has(client, '_getQueue')) await attachClient(client, options).start();
  else if (client?._self?._slots && has(client._self._slots, 'nodeClient')) await attachCluster(client, options).start();
  else if (has(client, 'getSentinelNode') && has(client._self, '_execute')) attachSentinel(client, options);
  else throw new TypeError(`${client?.constructor?.name} is not supported: use a Redis or a Cluster of ioredis, or what createClient, createCluster or createSentinel of redis 5 and newer makes, or a Cinch gateway`);
  return client;
}
