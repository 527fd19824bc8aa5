// Package redis mirrors Redis' protocol, RESP2 and RESP3. What a command touches and whether its
// answer is determined is learnt from the server (COMMAND), so modules and newer servers need no
// table here; what that does not say is in treatments.go.
//
// Reading order: protocol.go (what the engine asks for), reader.go (bytes of a client's connection to
// operations), filter.go and redact.go (what is recorded), cut.go (bytes to requests and replies), transaction.go, treatments.go (commands that are mirrored otherwise than they came), commands.go (what the
// server says of its commands), conn.go (a target's connection), replies.go (frames, and what of them is
// compared), expiry.go (answers that differ by time alone), check.go (servers before a run).
package redis
