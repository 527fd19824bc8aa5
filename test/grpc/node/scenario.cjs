// Runs scenario.json with @grpc/grpc-js: scenario.cjs ADDRESS CA-FILE-OR-EMPTY SCENARIO.
// Prints one line a call. Messages are bytes as they are, so no protobuf is needed.
'use strict';

const crypto = require('node:crypto');
const fs = require('node:fs');
const grpc = require('@grpc/grpc-js');

const authority = 'scenario.test';
const algorithms = {deflate: grpc.compressionAlgorithms.deflate, gzip: grpc.compressionAlgorithms.gzip};
const methods = {unary: 'Unary', client: 'Client', server: 'Server', bidi: 'Bidi'};
const same = (b) => b;

function payload(spec) {
  if (spec.gen === 'text') {
    const unit = 'The quick brown fox jumps over the lazy dog. ';
    return Buffer.from(unit.repeat(Math.floor(spec.len / unit.length) + 1)).subarray(0, spec.len);
  }
  const out = Buffer.alloc(spec.len);
  let state = spec.seed ?? 0;
  for (let i = 0; i < out.length; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    out[i] = state >>> 24;
  }
  return out;
}

function metadataOf(call) {
  const md = new grpc.Metadata();
  md.add('x-name', call.name);
  md.add('x-do', JSON.stringify(call.do).replace(/[^\x20-\x7e]/g, (c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0')));
  for (const [key, value] of call.metadata ?? []) {
    const bytes = typeof value === 'object' ? payload(value) : value;
    md.add(key, key.endsWith('-bin') ? bytes : bytes.toString());
  }
  return md;
}

function show(b) {
  const bytes = Buffer.from(b);
  if (bytes.length <= 60) return JSON.stringify(bytes.toString('latin1'));
  return crypto.createHash('sha256').update(bytes).digest('hex').slice(0, 16) + '/' + bytes.length;
}

// "date" is the time of day that some servers add.
function showMetadata(md) {
  const keys = Object.keys(md?.getMap() ?? {}).filter((k) => k !== 'date').sort();
  return keys.flatMap((k) => md.get(k).map((v) => k + '=' + show(v))).join(' ');
}

// One client for each algorithm: grpc-js chooses by channel.
function newClient(address, ca, compression) {
  const options = {'grpc.default_authority': authority, 'grpc.primary_user_agent': 'scenario', 'grpc.use_local_subchannel_pool': 1};
  if (ca) options['grpc.ssl_target_name_override'] = authority;
  if (compression) options['grpc.default_compression_algorithm'] = algorithms[compression];
  const credentials = ca ? grpc.credentials.createSsl(fs.readFileSync(ca)) : grpc.credentials.createInsecure();
  return new grpc.Client(address, credentials, options);
}

function run(client, call) {
  const method = call.method ?? '/cinch.test.Scenario/' + methods[call.kind];
  const options = {deadline: Date.now() + (call.deadline_ms ?? 60000)};
  const send = call.send.map(payload);
  const md = metadataOf(call);
  return new Promise((resolve) => {
    const got = {initial: undefined, status: undefined, answers: []};
    const answered = (a) => {
      got.answers.push(a);
      if (got.answers.length === call.cancel_after) rpc.cancel();
    };
    // The callback and the status come in either order.
    const single = call.kind === 'unary' || call.kind === 'client';
    let open = single ? 2 : 1;
    const done = () => --open === 0 && resolve(got);
    const back = (err, a) => {
      if (!err) answered(a);
      done();
    };
    let rpc;
    if (call.kind === 'unary') rpc = client.makeUnaryRequest(method, same, same, send[0], md, options, back);
    if (call.kind === 'client') rpc = client.makeClientStreamRequest(method, same, same, md, options, back);
    if (call.kind === 'server') rpc = client.makeServerStreamRequest(method, same, same, send[0], md, options);
    if (call.kind === 'bidi') rpc = client.makeBidiStreamRequest(method, same, same, md, options);
    rpc.on('metadata', (m) => { got.initial = m; });
    rpc.on('status', (s) => { got.status = s; done(); });
    rpc.on('error', () => {});
    if (!single) rpc.on('data', answered);
    if (call.kind === 'client' || call.kind === 'bidi') {
      for (const b of send) rpc.write(b);
      rpc.end();
    }
    if (call.cancel_after === 0) setTimeout(() => rpc.cancel(), 200);
  });
}

function line(call, got) {
  const fields = [call.name, grpc.status[got.status.code]];
  // Whoever notices first, the client or the server.
  if (call.normalise === 'late' && ['DEADLINE_EXCEEDED', 'CANCELLED'].includes(fields[1])) fields[1] = 'late';
  if (!call.normalise) {
    fields.push(show(got.status.details), 'initial ' + showMetadata(got.initial), 'trailing ' + showMetadata(got.status.metadata));
  }
  return fields.concat(got.answers.map(show)).join('\t');
}

async function main() {
  const [address, ca, path] = process.argv.slice(2);
  const clients = {};
  for (const call of JSON.parse(fs.readFileSync(path, 'utf8'))) {
    const client = (clients[call.compression ?? ''] ??= newClient(address, ca, call.compression));
    console.log(line(call, await run(client, call)));
  }
  for (const client of Object.values(clients)) client.close();
}

main();
