// What the classes of cinch_errors_total mean, and what to do; docs/operations/ALERTS.md says more.

const unreadable = "A compressed value could not be read: bytes were changed outside of Cinch, or a program writes past the gateway. cinch verify lists them.";

const meanings = {
  upstream_unreachable: "The server behind the gateway does not take connections. Is it up, and are address, password and certificates right?",
  unavailable: "The server behind the gateway did not answer. Is it up?",
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
  login_refused: "A client asked for a login that does not pass through a gateway.",
};

// meaning is a sentence or two; "": none is known.
export const meaning = (name) => meanings[name] ?? "";
