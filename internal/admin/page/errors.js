// What the classes of cinch_errors_total mean, and what to do; docs/operations/ALERTS.md says more.

const unreadable = "A compressed value could not be read: bytes were changed outside of Cinch, or a program writes past the gateway. cinch verify lists them.";

const meanings = {
  upstream_unreachable: "The server behind the gateway does not take connections. Is it up, and are address, password and certificates right?",
  unavailable: "The server behind the gateway did not answer. Is it up?",
  displaced: "A client that held many connections lost one to another client, as max_connections or descriptors ran short.",
  open_listener: "Clients of other machines were refused: the server asks for no password, and only loopback protects it. Set a password, or allow_open_listener.",
  yielded: "A call lost its stream to the server, because other clients waited for one. Look for a client with many silent calls.",
  resets: "A client cancels many calls, and has connections to the server of its own.",
  dictionary_missing: "A value's dictionary is not in the store. Bring it back: cinch dict import.",
  dictionary_unavailable: "The store did not answer when asked for a dictionary. Look at the store.",
  damaged: unreadable,
  wrong_tag: unreadable,
  corrupt: unreadable,
  unknown_codec: "A newer version of Cinch wrote a value. Upgrade this gateway.",
  upstream_corrupt: "The server, or the far gateway, sent what can't be decompressed. Compare versions.",
  descriptors: "Out of file descriptors. Raise LimitNOFILE, or find the client that leaks connections.",
  panic: "A fault in Cinch: one connection ended. Please report the log's lines.",
  stalled: "A peer held memory that others wanted, and moved less than 16 KiB a second. The log has addresses.",
  stranger: "A long message before a login: a scanner, perhaps.",
  tls_handshake: "A TLS handshake failed. Has a certificate expired?",
  link_lost: "A connection between a pair of gateways broke.",
  proxy_header: "A connection lacked the PROXY header that it should begin with.",
  budget: "No memory was free, so a value went as it is. Raise memory.budget.",
  malformed: "A client broke the protocol. Its connection was closed.",
  accept: "A connection could not be taken. The log has the system's reason.",
  truncated: "A message ended too early: a connection broke, or its sender is at fault.",
  too_large: "A message was longer than the limit, or declares to be. Raise max_seal or memory.budget if such ones are meant to pass.",
  nested: "A message is compressed twice. Is there a gateway behind a gateway that are no pair?",
  opcode: "A message of a kind that the gateway does not know. Compare the driver's version with docs/MONGODB.md.",
  compressor: "A message in a compression that was not agreed on. Compare the driver's settings.",
  checksum: "A message was changed on its way, or its sender is at fault. Look at the network in between.",
  pair: "The other end is not a gateway, or of another version. Compare peers: true at both ends.",
  not_primary: "A balancer led to a member that is no primary any more. Clients try again by themselves; if it lasts, look at the balancer.",
  schema: "The schema of the server could not be read. May the gateway's user read it?",
  schema_changed: "The server's schema changed, and a request was sent again. Nothing to do.",
  trailer: "Metadata was lost whose name HTTP forbids in trailers. Have the server name it otherwise.",
  encoding_refused: "A server does not know the encoding, so messages go without. Rules may name one that it knows.",
  out_of_order: "A message between two gateways was not the one that follows, and its call failed. One or two after a connection broke are nothing; many are a fault of ours: please report it.",
  metadata: "There was no memory for a call's metadata. Raise memory.budget.",
  exhausted: "Calls were refused for lack of memory. Raise memory.budget, or have clients send less at once.",
  cancelled: "Clients gave up on calls. Compare their deadlines with what the server takes.",
  deadline: "Calls took longer than their deadline. Look at the server's latency first.",
  permission: "Calls were refused: their client may not, or a certificate is missing.",
  internal: "A fault in Cinch, or an answer that makes no sense. Please report the log's lines.",
  bad_hello: "The two ends of a link could not agree. Is the other end a gateway of the same kind?",
  version: "The two ends of a link have different versions. Upgrade the older one.",
  refused: "The other end is full, or does not reach its upstream. Look there.",
  coding_refused: "The server does not read a coding of HTTP, so bodies go without for a minute. Rules may name one that it reads.",
  request: "A client's request was invalid, took too long, or its headers were too long.",
  upstream_reply: "The server's reply was not valid HTTP. Is the address that of an HTTP server?",
  compress: "A message could not be compressed, and was sent plain. If it lasts, please report the log's lines.",
  codec: "A piece of a link could not be compressed, and was sent plain. If it lasts, please report the log's lines.",
  login_refused: "A client asked for a login that does not pass through a gateway.",
};

// meaning is a sentence or two; "": none is known. Classes that begin with upstream_ are the server's fault.
export function meaning(name) {
  const own = name.replace(/^upstream_/, "");
  return meanings[name] ?? (own !== name && meanings[own] ? "The server sent it. " + meanings[own] : "");
}

// remedy is what to do about a gateway that does not serve.
export const remedy = (trouble) => /unreachable|refused|timeout|no such host/.test(trouble) ? meanings.upstream_unreachable : "The log has more; docs/operations/ALERTS.md says what to do.";
