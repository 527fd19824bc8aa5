// Brings Cinch to a client, whichever of the two it is.

import { DEFAULT_MAX_RAW } from './envelope.js';
import { attachRedis } from './ioredis.js';
import { attachClient } from './node-redis.js';

const REFRESH = 30_000; // ms

const warn = (message) => process.emitWarning(message, 'CinchWarning');

/**
 * Has a client seal and open values from now on. Resolves to it when the policy is known, or could not be had: then
 * nothing is sealed until it can. What the client's user needs besides its own rights, the README says.
 */
export async function attach(client, { refresh = REFRESH, maxRaw = DEFAULT_MAX_RAW } = {}) {
  const options = { refresh, maxRaw, warn };
  if (client?.commandQueue && !client.options.sentinels) await attachRedis(client, options).start();
  else if (typeof client?._getQueue === 'function') await attachClient(client, options).start();
  else throw new TypeError(`${client?.constructor?.name} is not supported: use a Redis of ioredis, or what createClient of redis 5 and newer makes, of one server, or a Cinch gateway`);
  return client;
}
