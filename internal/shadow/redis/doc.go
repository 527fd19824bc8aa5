// Package redis mirrors Redis' protocol, RESP2 and RESP3. What a command touches and whether its
// answer is determined is learnt from the server (COMMAND), so modules and newer servers need no
// table here; what that does not say is in a table of treatments.
//
// Reading order: fit.go and check.go (servers before a run), size.go, expiry.go (answers that differ by time alone), filter.go and redact.go (what is recorded), reader.go
// (bytes of a client's connection to operations), transaction.go, scriptlives.go and lives.go (keys that expire), treatments.go (commands that are
// mirrored otherwise than they came), refusals.go (what production refused), conn.go (a target's connection), protocol.go (what the engine asks for), deadlines.go, commands.go (what the
// server says of its commands), cut.go (bytes to requests and replies), replies.go (frames, and what of them is compared).
package redis
