// Package iproto splits Tarantool's binary protocol into frames and finds the parts of them that a
// gateway needs. It decodes nothing as a whole and holds no values: everything is a span of the
// caller's bytes.
//
//	greeting   128 bytes of text, once, from the server
//	frame      length (any unsigned MessagePack integer) of what follows: header, body
//	header     a map from small integers: type or code, sync, schema version, stream
//	body       a map from small integers, or nothing
//
// Read it in this order:
//
//	codes.go    types of requests, keys of headers and bodies, codes of errors
//	frame.go    the length prefix, the header, and the parts of a body
//	value.go    MessagePack: heads of values, and skipping over them
//	append.go   frames that a gateway sends
//
// Work and memory are limited by the number of bytes given: no count or length in them causes an
// allocation, and nesting does not cause recursion.
package iproto
