// Clients in Node: what each gets is printed, a line an exchange. Run as scenario.cjs URL SOCKET_URL.
const crypto = require('crypto')
const http = require('http')
const zlib = require('zlib')
const undici = require('undici')
const WebSocket = require('ws')

const [url, sockets] = process.argv.slice(2)
const text = Buffer.from('What goes over the wire costs money. '.repeat(400))
const left = new Set(['date', 'content-encoding', 'content-length', 'transfer-encoding', 'vary', 'accept-ranges', 'connection', 'keep-alive'])

function say (who, what, status, headers, body) {
  const kept = Object.entries(headers).filter(([k]) => !left.has(k.toLowerCase())).sort()
  console.log(who, what, status, JSON.stringify(kept), body.length, crypto.createHash('sha256').update(body).digest('hex').slice(0, 16))
}

async function * pieces () { for (let i = 0; i < text.length; i += 1000) yield text.subarray(i, i + 1000) }

const exchanges = [
  ['get', 'GET', '/text'], ['head', 'HEAD', '/text'], ['post', 'POST', '/echo', text], ['large', 'POST', '/echo', Buffer.concat(Array(200).fill(text))],
  ['gzip', 'POST', '/echo', zlib.gzipSync(text), { 'content-encoding': 'gzip' }], ['range', 'GET', '/file', undefined, { range: 'bytes=100-199' }],
  ['not modified', 'GET', '/file', undefined, { 'if-none-match': '"strong"' }], ['missing', 'DELETE', '/status/404'], ['error', 'GET', '/status/503']
]

async function fetches () {
  for (const [what, method, path, body, headers] of [...exchanges, ['stream', 'PUT', '/echo', 'stream'], ['redirect', 'GET', '/redirect'], ['events', 'GET', '/events']]) {
    const r = await fetch(url + path, { method, headers, body: body === 'stream' ? require('stream').Readable.toWeb(require('stream').Readable.from(pieces())) : body, duplex: 'half' })
    say('fetch', what, r.status, Object.fromEntries(r.headers), Buffer.from(await r.arrayBuffer()))
  }
}

async function undicis () {
  for (const [what, method, path, body, headers] of exchanges) {
    const r = await undici.request(url + path, { method, headers, body })
    say('undici', what, r.statusCode, r.headers, Buffer.from(await r.body.arrayBuffer()))
  }
}

function plain (agent, [what, method, path, body, headers]) {
  return new Promise((resolve, reject) => {
    const hints = []
    const r = http.request(url + path, { agent, method, headers }, resp => {
      const all = []
      resp.on('data', d => all.push(d)).on('error', reject).on('end', () => {
        say('http', what, resp.statusCode, resp.headers, Buffer.concat(all))
        console.log('  trailers', JSON.stringify(resp.trailers), 'hints', JSON.stringify(hints))
        resolve()
      })
    })
    r.on('information', i => hints.push([i.statusCode, i.headers])).on('error', reject).on('continue', () => r.end(body))
    if (!headers?.expect) r.end(body)
  })
}

async function https () {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 })
  for (const e of [...exchanges, ['hints', 'GET', '/hints'], ['trailers', 'GET', '/trailers'], ['expect', 'POST', '/echo', text, { expect: '100-continue', 'content-length': text.length }]]) await plain(agent, e)
  agent.destroy()
}

function socket (perMessageDeflate) {
  return new Promise((resolve, reject) => {
    const ws = new WebSocket(sockets, { perMessageDeflate })
    const sent = [Buffer.from('text'), Buffer.alloc(1 << 20, 'x'), crypto.randomBytes(1 << 20)]
    let got = 0
    ws.on('open', () => {
      for (const m of sent) ws.send(m)
      ws.send('in ', { fin: false })
      ws.send('pieces', { fin: true })
      ws.ping('ping')
    })
    const pongs = [] // the server answers a ping when it comes, before or after it says what came before again
    ws.on('pong', d => pongs.push('pong ' + d))
    ws.on('message', (d, binary) => {
      if (got < sent.length && !d.equals(sent[got])) reject(new Error('other bytes'))
      if (++got === sent.length + 1) {
        console.log('ws', d.toString(), binary, ws.extensions)
        ws.send('close 4002')
      }
    })
    ws.on('close', (code, reason) => { console.log('ws', ...pongs, 'closed', code, reason.toString()); resolve() }).on('error', reject)
  })
}

(async () => {
  await fetches()
  await undicis()
  await https()
  await socket(false)
  await socket(true)
})().catch(e => { console.error(e); process.exit(1) })
