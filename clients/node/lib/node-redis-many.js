// node-redis where there is more than one server: clusters, and primaries that Sentinels name. Both make clients of single servers as
// they need them, and send all commands by those; theirs share a keeper.

import { Keeper } from './keeper.js';
import { connect, sealCommands } from './node-redis.js';

const ENDS = ['close', 'destroy', 'quit', 'disconnect'];

export function attachCluster(cluster, options) {
  const self = cluster._self;
  const slots = self._slots;
  const nodeClient = slots.nodeClient.bind(slots);
  const servers = () => slots.masters.map((master) => async () => connect(await nodeClient(master)));
  const keeper = new Keeper({ servers, username: self._options.defaults?.username }, options);
  const seal = sealingOnce(keeper);
  slots.nodeClient = async (node) => seal(await nodeClient(node));
  const open = self.connect;
  self.connect = async function () {
    await open.call(this);
    await keeper.start();
    return this;
  };
  stopAtEnd(self, keeper);
  attachCopies(self, (copy) => attachCluster(copy, options));
  return { start: async () => (cluster.isOpen ? keeper.start() : undefined) };
}

/** No server is known before the first command, which waits for the policy. */
export function attachSentinel(sentinel, options) {
  const self = sentinel._self;
  const keeper = new SentinelKeeper(options);
  self._execute = keeper.sealing(self._execute.bind(self));
  const { acquire, use } = self;
  self.acquire = async () => leased(keeper, await acquire.call(self));
  self.use = (fn) => use.call(self, (lease) => fn(leased(keeper, lease)));
  stopAtEnd(self, keeper);
  attachCopies(self, (copy) => attachSentinel(copy, options));
}

class SentinelKeeper extends Keeper {
  #primary; // the client that was used last
  #started;
  #seal = sealingOnce(this);

  constructor(options) {
    super({ servers: () => [() => connect(this.#primary)] }, options);
  }

  /** What executes a function with a client, so that its commands are sealed. */
  sealing(execute) {
    return async (isReadonly, fn) =>
      execute(isReadonly, async (client) => {
        if (!isReadonly || !this.#primary) this.#isPrimary(client);
        if (this.#started) await this.#started;
        return fn(this.#seal(client));
      });
  }

  #isPrimary(client) {
    const isFirst = !this.#primary;
    this.#primary = client;
    if (isFirst) this.#started = this.#begin();
  }

  async #begin() {
    this.store.username = this.#primary.options?.username;
    await this.start();
    this.#started = undefined;
  }

  stop() {
    super.stop();
    this.#primary = undefined;
  }
}

/** A client for one who wants it alone. */
function leased(keeper, lease) {
  const self = lease._self;
  self._execute = keeper.sealing(self._execute.bind(self));
  return lease;
}

function sealingOnce(keeper) {
  const sealing = new WeakSet();
  return (client) => {
    if (!sealing.has(client)) sealCommands(client, keeper);
    sealing.add(client);
    return client;
  };
}

function stopAtEnd(self, keeper) {
  for (const name of ENDS.filter((name) => typeof self[name] === 'function')) {
    const end = self[name];
    self[name] = function () {
      keeper.stop();
      return end.call(this);
    };
  }
}

function attachCopies(self, attach) {
  const { duplicate } = self;
  self.duplicate = function (overrides) {
    const copy = duplicate.call(this, overrides);
    attach(copy);
    return copy;
  };
}
