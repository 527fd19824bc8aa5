// What node-postgres does for programs: prints one line a step. A run directly and one through a mirror have to print the same.
//
// Usage: node scenario.cjs URL
const { Client, Pool } = require("pg");
const Cursor = require("pg-cursor");
const { from, to } = require("pg-copy-streams");
const { pipeline } = require("node:stream/promises");
const { Readable, Writable } = require("node:stream");

const url = process.argv[2];
const show = (name, ...values) => console.log([name, ...values.map((v) => JSON.stringify(v))].join("\t"));

async function failing(name, promise) {
  try {
    show(name, (await promise).rows);
  } catch (e) {
    show(name, e.code, e.message, e.detail, e.constraint);
  }
}

async function statements(c) {
  await c.query("CREATE TABLE node (id int PRIMARY KEY, name text UNIQUE, doc jsonb)");
  for (let i = 0; i < 20; i++) {
    await c.query({ name: "insert", text: "INSERT INTO node VALUES ($1, $2, $3)", values: [i, `name ${i}`, { i, list: [i] }] });
    const got = await c.query({ name: "get", text: "SELECT name, doc FROM node WHERE id = $1", values: [i] });
    show("row", got.rows, got.fields.map((f) => [f.name, f.dataTypeID, f.format]));
  }
  show("binary", (await c.query({ text: "SELECT 1::int4 AS a, 'x'::text AS b", values: [], binary: true })).rows);
  show("array", (await c.query({ text: "SELECT i, i * 2 AS d FROM generate_series(1, 3) AS i", rowMode: "array" })).rows);
  show("several", (await c.query("SELECT 1 AS a; SELECT 2 AS b; UPDATE node SET doc = '{}' WHERE id = 1")).map((r) => [r.command, r.rows, r.rowCount]));
  show("empty", (await c.query("")).rows);
  await failing("unique", c.query("INSERT INTO node VALUES (1, 'x')"));
  await failing("prepared", c.query({ name: "bad", text: "SELECT nothing FROM node", values: [] }));
  await failing("again", c.query({ name: "bad", text: "SELECT nothing FROM node", values: [] }));
  // Queued at once: the driver sends them one behind the other.
  const all = await Promise.allSettled([1, 0, 2].map((n) => c.query("SELECT 10 / $1::int AS q", [n])));
  show("queued", all.map((r) => (r.status === "fulfilled" ? r.value.rows : r.reason.code)));
}

async function transactions(c) {
  for (const text of ["BEGIN ISOLATION LEVEL REPEATABLE READ", "UPDATE node SET doc = '1' WHERE id = 2", "SAVEPOINT s"]) await c.query(text);
  await failing("in a transaction", c.query("INSERT INTO node VALUES (2, 'x')"));
  await failing("aborted", c.query("SELECT 1"));
  for (const text of ["ROLLBACK TO s", "UPDATE node SET doc = '2' WHERE id = 3", "COMMIT"]) await c.query(text);
  show("committed", (await c.query("SELECT id, doc FROM node WHERE id IN (2, 3) ORDER BY id")).rows);
}

async function cursors(c) {
  const cursor = c.query(new Cursor("SELECT i FROM generate_series(1, 100) AS i WHERE i > $1", [10]));
  show("cursor", (await cursor.read(30)).length, (await cursor.read(100)).length, (await cursor.read(10)).length);
  await cursor.close();
  await c.query("BEGIN");
  const open = c.query(new Cursor("SELECT id FROM node ORDER BY id"));
  show("first", await open.read(2));
  await open.close();
  await c.query("COMMIT");
}

async function copies(c) {
  await c.query("CREATE TABLE copied (a int, b text)");
  const rows = Array.from({ length: 5000 }, (_, i) => `${i}\trow ${"x".repeat(i % 40)}\n`);
  await pipeline(Readable.from(rows), c.query(from("COPY copied FROM STDIN")));
  let bytes = 0;
  await pipeline(c.query(to("COPY (SELECT * FROM copied ORDER BY a) TO STDOUT")), new Writable({ write(b, _, done) { bytes += b.length; done(); } }));
  show("copied", bytes);
  try {
    await pipeline(Readable.from(["1\tgood\n", "no number\tbad\n"]), c.query(from("COPY copied FROM STDIN")));
  } catch (e) {
    show("refused", e.code, e.where);
  }
  show("rows", (await c.query("SELECT count(*) FROM copied")).rows);
}

async function notifications(c) {
  const heard = [];
  const both = new Promise((resolve) => c.on("notification", (n) => heard.push([n.channel, n.payload]) === 2 && resolve()));
  await c.query("LISTEN node");
  const other = new Client(url);
  await other.connect();
  await other.query("NOTIFY node, 'first'");
  await other.query("NOTIFY node, 'second'");
  await both;
  await other.end();
  show("notified", heard);
}

async function pools() {
  const pool = new Pool({ connectionString: url, max: 4 });
  await pool.query("CREATE TABLE counts (id int PRIMARY KEY, n int)");
  await Promise.all(Array.from({ length: 40 }, (_, i) =>
    pool.query("INSERT INTO counts VALUES ($1, 1) ON CONFLICT (id) DO UPDATE SET n = counts.n + 1", [i % 3])));
  show("pool", (await pool.query("SELECT * FROM counts ORDER BY id")).rows);
  const c = await pool.connect();
  await failing("timeout", c.query("SET statement_timeout = 50; SELECT pg_sleep(600)"));
  c.release(true);
  await pool.end();
}

(async () => {
  const c = new Client({ connectionString: url, application_name: "node's" });
  await c.connect();
  for (const step of [statements, transactions, cursors, copies, notifications]) await step(c);
  await c.end();
  await pools();
})().catch((e) => {
  console.error(e);
  process.exit(1);
});
