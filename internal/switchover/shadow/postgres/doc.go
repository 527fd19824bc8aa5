// Package postgres mirrors PostgreSQL's protocol. An operation is what a client sends up to the ReadyForQuery
// that answers it: a simple query, or messages of the extended protocol up to a Sync, with the data of a
// COPY. It records how many ReadyForQuery messages answer it.
//
// An operation that only reads (package sql decides) waits for the writes before it and may overlap other
// reads. Every other operation may conflict with all: it is sent to a target when all earlier operations are
// done there, except those that wait for a lock. Look asks the server for that, so slow statements are waited
// for and blocked ones are not.
//
// Reading order: explain.go and size.go (examine targets after a run), protocol.go (the engine's interface),
// reader.go (bytes of a client's connection to operations), placeholder.go (operations that failed in
// production only), guide.go (operations whose outcome depends on concurrent ones), unit.go (an incomplete
// operation), attempt.go (a guided operation at a target), blockers.go, conn.go (a target's connection),
// probe.go, processes.go (server processes of the mirror), sequences.go (positions of a target's sequences),
// check.go (checks before a run), pool.go (pools in front of a target), survey.go, reach.go (targets that
// reach other servers), opdata.go, digest.go (what is compared of an answer), exclusions.go (what is left out
// of it), numbers.go (numbers from sequences in it); data.go (comparison of data), catalogs.go,
// trackedcatalog.go (when a catalog is read), schemareader.go, connect.go, schema.go (finds nondeterministic
// columns), serial.go (columns that take numbers from sequences), catalog.go, subset.go (mirrored databases);
// filter.go (what is recorded).
package postgres
