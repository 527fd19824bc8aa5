// A server of @grpc/grpc-js for tests: echo.cjs PORT. Messages are bytes as they are. Unary and
// Both send back what they get; Count says how many messages that were.
'use strict';

const grpc = require('@grpc/grpc-js');

const same = (b) => b;
let count = 0;

function method(name, streams) {
  return {
    path: '/test.Echo/' + name, requestStream: streams, responseStream: streams,
    requestSerialize: same, requestDeserialize: same, responseSerialize: same, responseDeserialize: same,
  };
}

const server = new grpc.Server({'grpc.max_receive_message_length': 64 << 20});
server.addService({Unary: method('Unary', false), Both: method('Both', true), Count: method('Count', false)}, {
  Unary(call, answer) {
    count++;
    answer(null, call.request);
  },
  Both(call) {
    call.on('data', (message) => {
      count++;
      call.write(message);
    });
    call.on('end', () => call.end());
  },
  Count(_, answer) {
    answer(null, Buffer.from(String(count)));
  },
});
server.bindAsync('127.0.0.1:' + process.argv[2], grpc.ServerCredentials.createInsecure(), (err) => {
  if (err) throw err;
  server.start?.(); // older versions want it
});
