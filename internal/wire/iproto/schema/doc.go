// Package schema describes the spaces of a Tarantool server: their fields and indexes, and what computes on a
// field, so that it must not hold envelopes. It parses tuples of system spaces that its caller has read. Read it
// in this order:
//
//	schema.go         spaces, fields and indexes
//	constraints.go    what computes on a field
//	builder.go        parsing the system spaces
//	tuple.go          fields of a decoded tuple
//	serverversion.go  the server's version, from its greeting
package schema
