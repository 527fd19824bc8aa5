// Runs the shared scenario with ioredis.
// usage: node ioredis.cjs HOST PORT RESP SCENARIO.json   (NODE_PATH names node_modules)
'use strict';

const Redis = require('ioredis');
const { main, settle, waitBlocked } = require('./scenario.cjs');

class Client {
  constructor(host, port, values) {
    this.options = { host, port, maxRetriesPerRequest: 0, enableReadyCheck: false };
    this.values = values;
    this.a = new Redis(this.options);
    this.b = new Redis(this.options);
  }

  call(args, on = this.a) {
    return on.callBuffer(args[0].toString(), ...args.slice(1));
  }

  // queue adds commands to a pipeline or a transaction.
  queue(pipeline, list) {
    for (const args of list.map((c) => this.values.all(c))) {
      pipeline.callBuffer(args[0].toString(), ...args.slice(1));
    }
    return pipeline;
  }

  async pipeline(step) {
    const replies = await this.queue(this.a.pipeline(), step.pipeline).exec();
    return replies.map(([error, reply]) => error ?? reply);
  }

  async multi(step) {
    if (step.watch) await this.a.watch(...step.watch);
    for (const args of step.meanwhile ?? []) await settle(this.call(this.values.all(args), this.b));
    const replies = await this.queue(this.a.multi(), step.multi).exec();
    return replies && replies.map(([error, reply]) => error ?? reply);
  }

  async block(step) {
    const c = new Redis(this.options);
    const blocked = settle(this.call(this.values.all(step.block), c));
    await waitBlocked(() => this.b.info('clients'));
    const then = [];
    for (const args of step.then) then.push(await settle(this.call(this.values.all(args), this.b)));
    const got = await blocked;
    c.disconnect();
    return [got, ...then];
  }

  async subscribe(step) {
    const c = new Redis(this.options);
    const got = [await c.subscribe(step.subscribe)];
    for (const spec of step.publish) {
      const message = new Promise((resolve) => c.once('messageBuffer', (...m) => resolve(m)));
      got.push(await this.b.publish(step.subscribe, this.values.make(spec)), await message);
    }
    got.push(await c.unsubscribe(step.subscribe));
    c.disconnect();
    return got;
  }

  close() {
    this.a.disconnect();
    this.b.disconnect();
  }
}

main(async (host, port, resp, values) => {
  if (resp !== 2) throw new Error('this ioredis speaks RESP2');
  return new Client(host, port, values);
});
