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
// reader.go (bytes of a client's connection to operations), leftout.go (operations that failed in production
// only), lockguide.go (operations whose outcome depends on locks of concurrent ones), unit.go (an incomplete
// operation), attempt.go (a guided operation at a target), blockers.go, conn.go (a target's connection),
// progressprobe.go (what a target is doing), sequences.go (positions of a target's sequences), check.go
// (checks before a run), pooler.go (pools in front of a target), survey.go (what a server reports before a
// run), outboundaccess.go (targets that reach other servers), opdata.go, answerdigest.go (what is compared of
// an answer), portals.go (prepared statements and portals), sequencenumbers.go (numbers from sequences in an
// answer); data.go (comparison of data), catalogs.go, trackedcatalog.go (when a catalog is read),
// schemareader.go (reads a schema), connect.go, schemalearn.go (finds nondeterministic columns in a schema),
// serial.go (columns that take numbers from sequences), excludedcolumns.go (columns of results to leave out),
// mirroreddatabases.go (mirrored databases); recordfilter.go (what is recorded).
package postgres
