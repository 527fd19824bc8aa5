// Package postgres mirrors PostgreSQL's protocol. An operation is what a client sends up to the ReadyForQuery that answers it: a simple
// query, or messages of the extended protocol up to a Sync, with the data of a COPY. It has the number of its ReadyForQuery.
//
// What only reads (package sql says what does) waits for the writes before it, and may overlap other reads. Everything else touches
// everything: it is sent to a target when all that came before is done there, but for what waits for a lock at the target. That
// is looked up in the server (Look), so a slow statement is waited for, and a blocked one is not.
//
// Reading order: protocol.go (what the engine asks for), reader.go (bytes of a client's connection to operations), unit.go (an operation
// that is not complete), instead.go (what production failed at for reasons of its own), conn.go (a target's connection), look.go,
// connect.go, digest.go (what is compared of an answer).
package postgres
