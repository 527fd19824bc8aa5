// Package redis mirrors Redis' protocol, RESP2 and RESP3. Which keys a command touches, and whether its
// answer is deterministic, is learnt from the server (COMMAND), so modules and newer servers need no table
// here. What COMMAND does not tell is in a table of treatments.
//
// Reading order: fit.go and check.go (servers before a run), size.go, expiry.go (answers that differ by time
// alone), filter.go and redact.go (what is recorded), reader.go (bytes of a client's connection to
// operations), transaction.go, scriptttl.go and ttl.go (keys that expire), treatments.go (commands that
// are mirrored in another form), refusals.go (what production refused), conn.go (a target's connection),
// protocol.go (interface of the engine), deadlines.go, commands.go (the server's description of its
// commands), split.go (bytes to requests and replies), replies.go (frames, and how they are compared).
package redis
