// HOST PORT: writes and reads through gateways to a cluster with ioredis.
const Redis = require("ioredis");
const assert = require("node:assert");

async function main() {
  const [host, port] = process.argv.slice(2);
  const client = new Redis.Cluster([{ host, port: Number(port) }]);
  const value = "hello, sealed world; ".repeat(50);
  for (let i = 0; i < 400; i++) {
    assert.equal(await client.set(`node:${i}`, value + i), "OK");
  }
  for (let i = 0; i < 400; i++) {
    const [got, length] = await Promise.all([client.get(`node:${i}`), client.strlen(`node:${i}`)]);
    assert.equal(got, value + i);
    assert.equal(length, (value + i).length);
  }
  assert.equal(await client.append("node:7", "+"), value.length + 2);
  assert.equal(await client.eval("return redis.call('STRLEN',KEYS[1])", 1, "node:8"), value.length + 1);
  const tx = await client.multi().set("{t}a", value).append("{t}a", "+").get("{t}a").exec();
  assert.equal(tx[2][1], value + "+");
  console.log("400 keys right");
  for (const node of client.nodes()) {
    console.log(`${node.options.host}:${node.options.port}`);
  }
  client.disconnect();
}

main().catch((err) => {
  console.error(err);
  process.exit(1);
});
