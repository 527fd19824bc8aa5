// Package pg cuts the bytes of PostgreSQL connections (protocol 3) into messages. It decodes only what the
// gateway needs; jackc/pgx's pgproto3 decodes the rest.
//
//	first packet of a client:  | length int32 | code int32 | ...    |    TLS request, cancellation or startup
//	all others:                | type byte | length int32 | body ... |    the length counts itself
//
// Reading order: message.go, cutter.go (messages in pieces, as they arrive), startup.go, parts.go (the
// content of a few messages), scram.go (SCRAM and MD5 logins). Package sql below it examines the text of
// statements.
package pg
