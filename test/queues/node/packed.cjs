// HOST PORT fill|drain: jobs that wait while a packer goes over their keys, and what became of them.
const { Queue, Worker, FlowProducer } = require("bullmq");
const { createHash } = require("node:crypto");

const [host, port, phase] = process.argv.slice(2);
const connection = { host, port: Number(port), maxRetriesPerRequest: null };
const digest = (text) => createHash("sha256").update(text).digest("hex").slice(0, 12);
const menu = (i) => JSON.stringify(Array.from({ length: 40 }, (_, n) => ({ name: `dish ${n} of ${i}`, price: n * 10 })));
const name = "waiting-for-a-rather-long-time-in-a-queue-with-a-name-that-is-as-long-as-they-come";
const opts = { attempts: 3, backoff: { type: "exponential", delay: 20 }, removeOnFail: { age: 3600, count: 1000 }, failParentOnFailure: true };

async function fill() {
  const producer = new FlowProducer({ connection });
  for (let i = 0; i < 10; i++) {
    const child = (n) => ({ name: `child ${n}`, queueName: name, data: { text: menu(n) }, opts });
    await producer.add({ name: "parent", queueName: name, data: { text: menu(i) }, opts: { attempts: 2 }, children: [child(i), child(i + 1), child(i + 2)] });
  }
  await producer.close();
}

async function drain() {
  const queue = new Queue(name, { connection });
  const lines = [];
  let failed = 0;
  const worker = new Worker(name, async (job) => {
    if (job.name !== "parent" && job.attemptsMade === 0) throw new Error("once more " + menu(1));
    const children = Object.values(await job.getChildrenValues()).sort();
    lines.push(`${job.name} ${digest(job.data.text)} ${children}`);
    return digest(job.data.text);
  }, { connection, concurrency: 4, drainDelay: 1 });
  worker.on("error", (err) => (failed++, console.error(err.message)));
  for (let i = 0; i < 100; i++) {
    const counts = await queue.getJobCounts("completed", "failed");
    if (counts.completed + counts.failed >= 40 || failed > 20) break;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  await worker.close();
  console.log(lines.sort().join("\n"));
  console.log(JSON.stringify(await queue.getJobCounts("completed", "failed", "wait", "waiting-children", "active", "delayed")));
  await queue.close();
}

(phase === "fill" ? fill() : drain()).catch((err) => {
  console.error(err);
  process.exit(1);
});
