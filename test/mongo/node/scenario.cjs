// Runs the shared scenario against the URI that is given. Prints ok when every answer is right.
const assert = require('node:assert/strict');
globalThis.crypto ??= require('node:crypto').webcrypto; // Debian 12's Node.js 18 has no global one, and the driver needs it
const { MongoClient, GridFSBucket } = require('mongodb');

async function main() {
  const client = await MongoClient.connect(process.argv[2], { serverSelectionTimeoutMS: 15000 });
  const db = client.db('scenario_node');
  await db.dropDatabase();
  const things = db.collection('things');
  const documents = Array.from({ length: 300 }, (_, i) => ({ _id: i, text: `document number ${i} of a scenario`, n: i * 3 }));
  await things.insertMany(documents);
  assert.deepEqual(await things.find({}, { batchSize: 100 }).sort({ _id: 1 }).toArray(), documents);
  assert.equal((await things.updateMany({}, { $inc: { n: 1 } })).modifiedCount, 300);
  assert.equal((await things.findOne({ _id: 7 })).n, 22);
  const [{ sum }] = await things.aggregate([{ $group: { _id: null, sum: { $sum: '$n' } } }]).toArray();
  assert.equal(sum, documents.reduce((s, d) => s + d.n + 1, 0));
  const stream = things.watch();
  await stream.tryNext();
  await client.withSession((session) => session.withTransaction(() => things.insertOne({ _id: 'in a transaction' }, { session })));
  assert.equal((await stream.next()).documentKey._id, 'in a transaction');
  await stream.close();
  const large = 'a large value '.repeat(400000);
  await things.insertOne({ _id: 'large', v: large });
  assert.equal((await things.findOne({ _id: 'large' })).v, large);
  await things.insertOne({ _id: 'silent' }, { writeConcern: { w: 0 } });
  const bucket = new GridFSBucket(db);
  const content = Buffer.alloc(1 << 20, 'chunk of a file ');
  const upload = bucket.openUploadStream('file');
  upload.end(content);
  await new Promise((resolve, reject) => upload.on('finish', resolve).on('error', reject));
  const back = [];
  for await (const part of bucket.openDownloadStream(upload.id)) back.push(part);
  assert.ok(Buffer.concat(back).equals(content));
  await db.admin().ping();
  await assert.rejects(things.findOne({ $nonsense: 1 }));
  for (let i = 0; i < 50 && (await things.countDocuments()) < 303; i++) await new Promise((r) => setTimeout(r, 20));
  assert.equal(await things.countDocuments(), 303);
  await client.close();
  console.log('ok');
}

main().catch((err) => { console.error(err); process.exit(1); });
