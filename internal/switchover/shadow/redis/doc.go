// Package redis mirrors Redis' protocol, RESP2 and RESP3. The server's COMMAND tells which keys a command
// touches, and whether its answer is deterministic, so modules and newer servers need no table here. A table
// of treatments has what COMMAND does not tell.
//
// Reading order: rolecheck.go and check.go (servers before a run), size.go, expiryexcuse.go (answers that
// differ because a key has expired), recordfilter.go and redact.go (what is recorded), reader.go (bytes of a
// client's connection to operations), transaction.go, scriptttl.go and keyexpiry.go (keys that expire),
// treatments.go (commands that are mirrored in another form), conn.go (a target's connection), protocol.go
// (interface of the engine), deadlines.go, commands.go (the server's description of its commands), framing.go
// (bytes to requests and replies), replies.go (how they are compared).
package redis
