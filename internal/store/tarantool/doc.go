// Package tarantool gives background access to a Tarantool server: its schema, and the
// walk over its tuples with replacement by compare-and-set.
//
//	conn.go         our own connection, and which errors mean what
//	version.go      the schema's version, out of the headers of answers
//	schema.go       spaces, fields and indexes as the server describes them
//	hidden.go       constraints, where the user may not read all of them
//	constraints.go  what computes on a field, and so rules out envelopes in it
//	init.go         what an administrator installs: stored functions (lua/) and spaces
//	calls.go        calling them
//	store.go        a server, and the spaces to walk over
//	scan.go         steps of a walk, and the values in tuples
//	sample.go       some of the tuples, for who may only read
//	replace.go      compare and set
//	dicts.go        dictionaries and records
//	shards.go       the shards of vshard's clusters, as servers know them
//	group.go        dictionaries of a server whose tuples move to others and back
//	collect.go      the end of dictionaries that no value names
//	lease.go        whose turn it is to pack
//	module.go       cinch.lua, for the server's own Lua
//
// Nothing here is on the data path: clients' connections are the gateway's.
package tarantool
