// Writes and reads by several loops through one client until standard input ends, and prints what
// python/writers.py prints.
const { MongoClient } = require('mongodb')

const [uri, collection, threads] = process.argv.slice(2)
const client = new MongoClient(uri, { serverSelectionTimeoutMS: 15000 })
const things = client.db('shop').collection(collection)
const acknowledged = Array.from({ length: Number(threads) }, () => [])
const errors = []
let stopped = false

async function work(i) {
  for (let n = 1; !stopped; n++) {
    const id = `${i}/${n}`
    try {
      await things.insertOne({ _id: id, n })
      acknowledged[i].push(id)
      if ((await things.findOne({ _id: id })).n !== n) errors.push('wrong document')
    } catch (e) {
      errors.push(String(e).slice(0, 300))
    }
  }
}

process.stdin.on('end', () => { stopped = true }).resume()
const report = setInterval(() => console.log(JSON.stringify({ done: acknowledged.map((a) => a.length) })), 50)
Promise.all(acknowledged.map((_, i) => work(i))).then(async () => {
  clearInterval(report)
  console.log(JSON.stringify({ ids: acknowledged.flat(), errors }))
  await client.close()
})
