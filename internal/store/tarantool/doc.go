// Package tarantool gives background access to a Tarantool server: its schema, the walk over its tuples with
// replacement by compare-and-set, and the dictionaries that its values name. Read it in this order, from high
// to low. For other packages:
//
//	walk.go          walking a server, or all shards: store.Store
//	access.go        reading single values: store.Access
//	dictadmin.go     an administrator's access to dictionaries: store.DictAdmin
//	errorhints.go    error messages with hints
//
// Dictionaries:
//
//	clusterdicts.go  of a server whose tuples may move to other shards
//	shards.go        the shards of vshard clusters, as servers know them
//	collect.go       archiving dictionaries that no value names
//	lease.go         taking turns at packing
//	pause.go         pausing all packing
//	dicts.go         of one server
//	records.go       texts that gateways and packers share
//
// Tuples:
//
//	users.go         which users may have written them
//	storedbytes.go   the memory that they take
//	replace.go       replacing fields by compare-and-set
//	sample.go        samples, for users that may only read
//	activity.go      a server's counters
//	scan.go          steps of a walk, the values in tuples, and reading one tuple
//	store.go         a server and the spaces to walk; walk.go makes a store.Store of one or several
//
// The schema, see internal/wire/iproto/schema:
//
//	loadschema.go    reading it
//	hiddenconstraints.go  constraints on servers before 2.11, whose system spaces most users may not read
//
// The server:
//
//	calls.go         calling Cinch's stored functions
//	init.go          what an administrator installs: stored functions (lua/) and spaces
//	conn.go          Cinch's own connection, and the classes of its errors
//	schemaversion.go the schema's version, from the headers of answers
//	module.go        cinch.lua, for the server's own Lua
//
// Nothing here is on the data path: the gateway handles clients' connections.
package tarantool
