// Runs the shared scenario with node-redis.
// usage: node node-redis.cjs HOST PORT RESP SCENARIO.json   (NODE_PATH names node_modules)
'use strict';

const { createClient, RESP_TYPES } = require('redis');
const { main, settle, waitBlocked } = require('./scenario.cjs');

// Replies as bytes, and maps in an order that can be compared.
const types = {
  [RESP_TYPES.BLOB_STRING]: Buffer,
  [RESP_TYPES.MAP]: Map,
  [RESP_TYPES.SET]: Array,
};

class Client {
  constructor(host, port, resp, values) {
    this.options = { RESP: resp, socket: { host, port, reconnectStrategy: false } };
    this.values = values;
  }

  async connect() {
    const c = createClient(this.options);
    c.on('error', () => {}); // the call that meets it fails too
    await c.connect();
    return c.withTypeMapping(types); // connect() would give a client without
  }

  async open() {
    this.a = await this.connect();
    this.b = await this.connect();
    return this;
  }

  call(args, on = this.a) {
    return on.sendCommand(args, { typeMapping: types });
  }

  queue(pipeline, list) {
    for (const args of list) pipeline.addCommand(this.values.all(args));
    return pipeline;
  }

  // Commands of one tick go out together: node-redis's way to pipeline.
  pipeline(step) {
    return Promise.all(step.pipeline.map((args) => settle(this.call(this.values.all(args)))));
  }

  async multi(step) {
    if (step.watch) await this.a.watch(step.watch);
    for (const args of step.meanwhile ?? []) await settle(this.call(this.values.all(args), this.b));
    try {
      return await this.queue(this.a.multi(), step.multi).exec();
    } catch (e) {
      return e.replies ?? e; // a transaction in which a command failed has the others' replies
    }
  }

  async block(step) {
    const c = await this.connect();
    const blocked = settle(this.call(this.values.all(step.block), c));
    await waitBlocked(async () => String(await this.b.info('clients')));
    const then = [];
    for (const args of step.then) then.push(await settle(this.call(this.values.all(args), this.b)));
    const got = await blocked;
    c.destroy();
    return [got, ...then];
  }

  async subscribe(step) {
    const c = await this.connect();
    const messages = [];
    let wake = () => {};
    await c.subscribe(step.subscribe, (message, channel) => {
      messages.push([channel, message]);
      wake();
    }, true);
    const got = [];
    for (const spec of step.publish) {
      const before = messages.length;
      const arrived = new Promise((resolve) => { wake = resolve; });
      got.push(await this.b.publish(step.subscribe, this.values.make(spec)));
      if (messages.length === before) await arrived;
    }
    await c.unsubscribe(step.subscribe);
    c.destroy();
    return [got, messages];
  }

  async track(step) {
    const plain = createClient({ ...this.options, emitInvalidate: true });
    const keys = [];
    plain.on('error', () => {});
    plain.on('invalidate', (key) => keys.push(key));
    await plain.connect();
    const c = plain.withTypeMapping(types);
    const got = [await c.sendCommand(['CLIENT', 'TRACKING', 'ON'])];
    for (const spec of step.values) {
      got.push(await c.get(step.track), await this.b.set(step.track, this.values.make(spec)));
      for (let i = 0; i < 2000 && keys.length === 0; i++) {
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
      got.push(keys.splice(0));
    }
    got.push(await c.get(step.track));
    c.destroy();
    return got;
  }

  close() {
    this.a.destroy();
    this.b.destroy();
  }
}

main((host, port, resp, values) => new Client(host, port, resp, values).open());
