// Package tarantool gives background access to a Tarantool server: its schema, the walk over its
// tuples with replacement by compare-and-set, and the dictionaries that its values name. Read it in
// this order, from high to low. What others are given:
//
//	walk.go          a server, or all shards, to walk over: store.Store
//	access.go        a server to look at: store.Access
//	shelf.go         its dictionaries to an administrator: store.Shelf
//	explain.go       errors, and what helps
//
// Dictionaries:
//
//	group.go         of a server whose tuples move to others and back
//	shards.go        the shards of vshard's clusters, as servers know them
//	collect.go       the end of those that no value names
//	lease.go         whose turn it is to pack
//	pause.go         that nobody is to
//	dicts.go         those of one server
//	records.go       what gateways and packers tell each other
//
// Tuples:
//
//	users.go         who may have written them
//	replace.go       compare and set
//	sample.go        some of them, for users who may only read
//	scan.go          steps of a walk, and the values in tuples
//	store.go         a server, and the spaces to walk over
//	fetch.go         one tuple
//
// The schema:
//
//	load.go          how it is read
//	hidden.go        constraints as servers before 2.11 keep them, where not all may read them
//	rules.go         which rules cover a field
//	constraints.go   what computes on a field, and so rules out envelopes in it
//	schema.go        spaces, fields and indexes as the server describes them
//
// The server:
//
//	calls.go         calling what is installed in it
//	init.go          what an administrator installs: stored functions (lua/) and spaces
//	conn.go          our own connection, and which errors mean what
//	version.go       the schema's version, out of the headers of answers
//	serverversion.go the server's, out of its greeting
//	module.go        cinch.lua, for the server's own Lua
//
// Nothing here is on the data path: clients' connections are the gateway's.
package tarantool
