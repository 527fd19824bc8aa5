// What the classes of cinch_errors_total mean, and what to do; docs/operations/ALERTS.md says more.

const unreadable = "A compressed value could not be read: its bytes were changed outside of Cinch, or a program writes without the gateway. List such values with cinch verify.";

const meanings = {
  upstream_unreachable: "The server behind the gateway does not accept connections. Is it up, and are address, password and certificates right?",
  unavailable: "The server behind the gateway did not answer. Is it up?",
  displaced: "A client with many connections lost one to another client, because max_connections or file descriptors ran short.",
  connections: "HTTP/2 clients use all connections to the server that max_connections allows. Raise it, or find the client with many requests.",
  open_listener: "Clients on other machines were refused: the server requires no password, and only loopback protects it. Set a password, or allow_open_listener.",
  yielded: "A call lost its stream to the server, because other clients waited for one. Look for a client with many idle calls.",
  resets: "A client cancels many calls, so it gets its own connections to the server.",
  dictionary_missing: "A value's dictionary is not in the store. Restore it with cinch dict import.",
  dictionary_unavailable: "The store did not answer a request for a dictionary. Check the store.",
  damaged: unreadable,
  wrong_tag: unreadable,
  corrupt: unreadable,
  unknown_codec: "A newer version of Cinch wrote a value. Upgrade this gateway.",
  upstream_corrupt: "The server, or the other gateway, sent data that can't be decompressed. Compare versions.",
  descriptors: "File descriptors ran out. Raise LimitNOFILE, or find the client that leaks connections.",
  panic: "A fault in Cinch ended one connection. Please report the log lines.",
  stalled: "A peer held memory that others waited for, and transferred less than 16 KiB a second. The log has addresses.",
  unauthenticated: "A client sent a long message before it logged in; it may be a scanner.",
  tls_handshake: "A TLS handshake failed. Has a certificate expired?",
  link_lost: "A connection between a pair of gateways broke.",
  proxy_header: "A connection lacked the PROXY header that it should begin with.",
  budget: "No memory was free, so a value was left unchanged. Raise memory.budget.",
  malformed: "A client broke the protocol. Its connection was closed.",
  accept: "A connection could not be accepted. The log has the system's reason.",
  truncated: "A message ended too early: a connection broke, or its sender is at fault.",
  too_large: "A message was longer than the limit, or declared to be. Raise max_seal or memory.budget if such messages are expected.",
  nested: "A message is compressed twice. Are there two gateways in a row that are not a pair?",
  opcode: "A message of an unknown kind. Compare the driver's version with docs/MONGODB.md.",
  compressor: "A message used a compression that was not negotiated. Compare the driver's settings.",
  checksum: "A message was changed in transit, or its sender is at fault. Check the network in between.",
  not_primary: "A balancer connected clients to a member that is no longer primary. Clients retry by themselves; if it lasts, check the balancer.",
  schema: "The schema of the server could not be read. May the gateway's user read it?",
  schema_changed: "The server's schema changed, and a request was sent again. Nothing to do.",
  trailer: "Metadata was dropped, because HTTP forbids its name in trailers. Rename it in the server.",
  encoding_refused: "A server does not support the encoding, so messages are sent without it. Name a supported one in the rules.",
  out_of_order: "A message between two gateways was not the next one, and its call failed. One or two after a broken connection are harmless; many are a fault in Cinch: please report it.",
  metadata: "There was no memory for a call's metadata. Raise memory.budget.",
  exhausted: "Calls were refused for lack of memory. Raise memory.budget, or let clients send less at once.",
  cancelled: "Clients gave up on calls. Compare their deadlines with the server's latency.",
  deadline: "Calls took longer than their deadline. Check the server's latency first.",
  permission: "Calls were refused: the client lacks permission, or a certificate is missing.",
  internal: "A fault in Cinch, or an invalid answer. Please report the log lines.",
  bad_hello: "The two ends of a link could not agree. Is the other end a gateway of the same kind?",
  bad_key: "The two ends of a link do not have the same key. Give both gateways the same peer_key_file.",
  version: "The two ends of a link have different versions. Upgrade the older one.",
  refused: "The other end is full, or can't reach its upstream. Check it.",
  coding_refused: "The server does not support an HTTP content coding, so bodies are sent without it for a minute. Name a supported one in the rules.",
  request: "A client's request was invalid, took too long, or its headers were too long.",
  upstream_reply: "The server's reply was not valid HTTP. Is the address that of an HTTP server?",
  compress: "A message could not be compressed, and was sent uncompressed. If it lasts, please report the log lines.",
  codec: "A block of a link could not be compressed, and was sent uncompressed. If it lasts, please report the log lines.",
  login_refused: "A client used a login method that does not work through a gateway.",
};

// meaning returns one or two sentences, or "" for an unknown class. Classes that begin with upstream_ are the server's fault.
export function meaning(name) {
  const own = name.replace(/^upstream_/, "");
  return meanings[name] ?? (own !== name && meanings[own] ? "The server sent it. " + meanings[own] : "");
}

// remedy returns what to do about a gateway that does not serve.
export const remedy = (trouble) => /unreachable|refused|timeout|no such host/.test(trouble) ? meanings.upstream_unreachable : "The log has more; docs/operations/ALERTS.md says what to do.";
