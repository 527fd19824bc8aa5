// Package stored reads with today's program what an earlier version has stored: values, dictionaries, records and
// the published policy in Redis and Tarantool, a recording, a history of counters, and the state of interrupted
// runs. testdata/README.md says how the files were made. They are frozen: a name in them that changes in the code
// must still be read.
package stored
