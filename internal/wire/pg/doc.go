// Package pg cuts the bytes of PostgreSQL connections (protocol 3) into messages. What messages mean beyond what is needed
// to follow a conversation is left to jackc/pgx's pgproto3.
//
//	first packet of a client:  | length int32 | code int32 | ...    |    a request for encryption, a cancellation, or the startup
//	all others:                | type byte | length int32 | body ... |    the length counts itself
//
// Reading order: message.go, cutter.go (messages as their bytes come), startup.go, parts.go (what a few messages say), scram.go (a login's proofs).
// Package sql below it looks at the text of statements.
package pg
