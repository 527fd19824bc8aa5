// Package iproto cuts Tarantool's binary protocol into frames and says where in them the
// parts are that a gateway looks at. It decodes nothing whole and holds no value: everything
// is a span of the caller's bytes.
//
//	greeting   128 bytes of text, once, from the server
//	frame      length (any unsigned MessagePack integer) of what follows: header, body
//	header     a map from small integers: type or code, sync, schema version, stream
//	body       a map likewise, or nothing
//
// Read it in this order:
//
//	codes.go    types of requests, keys of headers and bodies, codes of errors
//	frame.go    the length in front, the header
//	body.go     where the parts of a body are
//	value.go    MessagePack: heads of values, and skipping over them
//	append.go   frames of our own
//
// Work and memory are bounded by the bytes at hand: no count or length in them makes anything
// be allocated, and nesting is counted, not recursed into.
package iproto
