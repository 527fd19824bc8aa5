// Package schema describes the spaces of a Tarantool server: their fields and indexes, and which fields must not hold
// envelopes because the server reads their values. It parses tuples of system spaces that its caller has read. Read
// it in this order:
//
//	schema.go         spaces, fields and indexes
//	constraints.go    indexes and constraints that read the value of a field
//	builder.go        parsing the system spaces
//	tuple.go          fields of a decoded tuple
//	serverversion.go  the server's version, from its greeting
package schema
