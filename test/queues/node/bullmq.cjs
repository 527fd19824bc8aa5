// HOST PORT: BullMQ's features, one line each with what came of it. Values of the
// application lie beside the queue's own keys, and its jobs read and write them.
const { Queue, Worker, QueueEvents, FlowProducer, UnrecoverableError } = require("bullmq");
const Redis = require("ioredis");
const assert = require("node:assert");
const { createHash } = require("node:crypto");

const [host, port] = process.argv.slice(2);
const connection = { host, port: Number(port), maxRetriesPerRequest: null };
const app = new Redis(connection);
require("node:events").defaultMaxListeners = 50; // one for each waiting job
const open = [];
const keep = (x) => (open.push(x), x);
const digest = (text) => createHash("sha256").update(text).digest("hex").slice(0, 12);
const menu = (i) => JSON.stringify({ i, dishes: Array.from({ length: 40 }, (_, n) => ({ name: `dish ${n} of ${i}`, price: n * 10, tags: ["hot", "cold"] })) });
const tell = (what, result) => console.log(`${what}\t${JSON.stringify(result)}`);
const sorted = (list) => [...list].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));

// setUp returns a queue with what it takes to run its jobs and to wait for them.
async function setUp(name, run, options = {}) {
  const queue = keep(new Queue(name, { connection }));
  const events = keep(new QueueEvents(name, { connection }));
  const worker = keep(new Worker(name, run, { connection, drainDelay: 1, ...options }));
  worker.on("error", (err) => fail(err));
  await Promise.all([events.waitUntilReady(), worker.waitUntilReady()]);
  return { queue, events, worker, wait: (jobs) => Promise.allSettled(jobs.map((job) => job.waitUntilFinished(events, 60_000))) };
}

async function once() {
  const runs = new Map();
  const { queue, wait } = await setUp("once", async (job) => {
    runs.set(job.data.i, (runs.get(job.data.i) ?? 0) + 1);
    const [text, length, order] = await Promise.all([app.get(`app:menu:${job.data.i}`), app.strlen(`app:menu:${job.data.i}`), app.hgetall(`app:order:${job.data.i}`)]);
    assert.equal(text, menu(job.data.i));
    assert.equal(length, text.length);
    assert.equal(order.text, job.data.text);
    await job.updateProgress({ at: job.data.i });
    await job.log(`looked at ${job.data.i}`);
    await job.updateData({ ...job.data, seen: true, more: menu(job.data.i) });
    return { i: job.data.i, digest: digest(text), text: text.slice(0, 500) };
  }, { concurrency: 8 });
  const numbers = Array.from({ length: 60 }, (_, i) => i);
  for (const i of numbers) {
    await app.set(`app:menu:${i}`, menu(i));
    await app.hset(`app:order:${i}`, { text: menu(i), n: i });
  }
  const jobs = await queue.addBulk(numbers.map((i) => ({ name: "look", data: { i, text: menu(i) } })));
  const results = (await wait(jobs)).map((r) => r.value);
  assert.deepEqual(results.map((r) => r.i), numbers);
  assert.deepEqual(sorted(runs.values()), numbers.map(() => 1));
  const again = await queue.getJob(jobs[7].id);
  const { logs } = await queue.getJobLogs(jobs[7].id);
  tell("once", { results: results.map((r) => r.digest), data: digest(JSON.stringify(again.data)), value: digest(JSON.stringify(again.returnvalue)), progress: again.progress, logs, counts: await queue.getJobCounts("completed", "failed", "waiting", "active") });
}

async function large() {
  const text = menu(1).repeat(700); // about 2 MB
  const { queue, wait } = await setUp("large", async (job) => job.data.text + "!");
  const job = await queue.add("large", { text });
  const [{ value }] = await wait([job]);
  assert.equal(value, text + "!");
  tell("large", [value.length, digest(value), (await queue.getJob(job.id)).data.text === text]);
}

async function delayed() {
  const order = [];
  const { queue, wait } = await setUp("delayed", async (job) => void order.push(job.name));
  const jobs = [await queue.add("third", {}, { delay: 1500 }), await queue.add("second", {}, { delay: 800 }), await queue.add("first", { text: menu(2) }, { delay: 100 })];
  const counts = await queue.getJobCounts("delayed");
  await wait(jobs);
  tell("delayed", [order, counts.delayed > 0]);
}

async function retried() {
  const { queue, wait } = await setUp("retried", async (job) => {
    if (job.name === "hopeless") throw new UnrecoverableError("no " + menu(3));
    if (job.attemptsMade < 2) throw new Error("not yet " + menu(job.attemptsMade));
    return job.attemptsMade;
  });
  const jobs = [await queue.add("works", { text: menu(3) }, { attempts: 5, backoff: { type: "exponential", delay: 20 } }), await queue.add("hopeless", { text: menu(4) }, { attempts: 5 })];
  const results = await wait(jobs);
  const [works, hopeless] = await Promise.all(jobs.map((job) => queue.getJob(job.id)));
  tell("retried", [results.map((r) => r.status), works.attemptsMade, works.returnvalue, works.stacktrace.length, digest(hopeless.failedReason), hopeless.attemptsMade]);
  await hopeless.retry("failed");
  await hopeless.waitUntilFinished(open.find((x) => x instanceof QueueEvents && x.name === "retried"), 60_000).catch(() => {});
  tell("retried by hand", [await hopeless.getState(), (await queue.getFailed()).length]);
}

async function priorities() {
  const order = [];
  const { queue, wait } = await setUp("priorities", async (job) => void order.push(job.name));
  await queue.pause();
  const jobs = [];
  for (const [name, priority] of [["low", 30], ["high", 1], ["middle", 7], ["high too", 1], ["now", undefined], ["changed", 100]]) {
    jobs.push(await queue.add(name, { text: menu(5) }, { priority }));
  }
  await jobs[5].changePriority({ priority: 5 });
  await queue.resume();
  await wait(jobs);
  tell("priorities", order);
}

async function limited() {
  const { queue, wait } = await setUp("limited", async (job) => job.data.i, { limiter: { max: 3, duration: 400 }, concurrency: 5 });
  const began = Date.now();
  const jobs = await queue.addBulk(Array.from({ length: 10 }, (_, i) => ({ name: "limited", data: { i } })));
  const results = await wait(jobs);
  tell("limited", [results.map((r) => r.value), Date.now() - began >= 800]); // four windows' beginnings
}

async function flows() {
  const { wait } = await setUp("parents", async (job) => {
    const values = Object.values(await job.getChildrenValues());
    return sorted(values.map((v) => v.digest));
  });
  await setUp("children", async (job) => {
    if (job.data.fails) throw new Error("child fails");
    return { digest: digest(job.data.text), text: job.data.text };
  }, { concurrency: 4 });
  const producer = keep(new FlowProducer({ connection }));
  const child = (i, data = {}, opts = {}) => ({ name: `child ${i}`, queueName: "children", data: { text: menu(i), ...data }, opts });
  const good = await producer.add({ name: "good", queueName: "parents", data: { text: menu(9) }, children: [0, 1, 2, 3, 4].map((i) => child(i)) });
  const bad = await producer.add({ name: "bad", queueName: "parents", children: [child(5), child(6, { fails: true }, { failParentOnFailure: true })] });
  const [first, second] = await wait([good.job, bad.job]);
  tell("flows", [first.value, second.status, Object.keys((await good.job.getDependencies()).processed).length]);
}

async function scheduled() {
  const { queue, worker } = await setUp("scheduled", async (job) => job.data.text.length);
  const seen = new Promise((resolve) => {
    const lengths = [];
    worker.on("completed", (_, value) => lengths.push(value) === 3 && resolve(lengths));
  });
  await queue.upsertJobScheduler("every", { every: 60, limit: 3 }, { name: "tick", data: { text: menu(1) }, opts: { removeOnComplete: true } });
  const same = await Promise.all([1, 2, 3].map(() => queue.add("single", { text: menu(1) }, { deduplication: { id: "one", ttl: 60_000 }, delay: 60_000 })));
  tell("scheduled", [await seen, new Set(same.map((job) => job.id)).size]);
  await queue.removeJobScheduler("every");
}

async function main() {
  for (const part of [once, large, delayed, retried, priorities, limited, flows, scheduled]) {
    await part();
  }
  for (const x of open.filter((x) => x instanceof Worker)) await x.close();
  for (const x of open.filter((x) => x instanceof Queue)) await x.obliterate({ force: true });
  tell("left", sorted((await app.keys("bull:*")).filter((k) => !k.endsWith(":limiter")))); // that one expires
  await Promise.all(open.filter((x) => !(x instanceof Worker)).map((x) => x.close()));
  app.disconnect();
}

function fail(err) {
  console.error(err);
  process.exit(1);
}

main().catch(fail);
