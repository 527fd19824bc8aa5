// Package postgres mirrors PostgreSQL's protocol. An operation is what a client sends up to the ReadyForQuery that answers it: a simple
// query, or messages of the extended protocol up to a Sync, with the data of a COPY. It has the number of its ReadyForQuery.
//
// What only reads (package sql says what does) waits for the writes before it, and may overlap other reads. Everything else touches
// everything: it is sent to a target when all that came before is done there, but for what waits for a lock at the target. That
// is looked up in the server (Look), so a slow statement is waited for, and a blocked one is not.
//
// Reading order: explain.go and size.go (targets when a run has ended), protocol.go (what the engine asks for), reader.go (bytes of a client's
// connection to operations), instead.go (what production failed at for reasons of its own), guide.go (what has to be led to production's answer),
// unit.go (an operation that is not complete), attempt.go (a guided operation at a target), eat.go, conn.go (a target's connection), look.go,
// processes.go (which are the mirror's), sequences.go (what a target's sequences have given), check.go (what a run would meet), pool.go (what stands before a target), survey.go, reach.go (what gets beyond a target), beside.go,
// digest.go (what is compared of an answer), shape.go (what is left out of it), draw.go (numbers of sequences in it); data.go (what servers hold),
// catalogs.go, followed.go (when a catalog is read), describer.go, connect.go, describe.go (where columns that differ by nature are found), serial.go
// (columns that take numbers of sequences), catalog.go, subset.go (databases that are mirrored); filter.go (what is recorded).
package postgres
