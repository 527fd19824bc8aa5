// Package resp parses the Redis serialization protocol (RESP2 and RESP3, as
// https://redis.io/docs/latest/develop/reference/protocol-spec/ and Redis's networking.c define it) into
// requests and reply frames, and writes both.
//
// It does not know connections or what a command means. Lengths are checked before anything is allocated, and
// what a caller does not change can be forwarded as the received bytes: a Reader copies frames through
// without holding them.
//
// The parser accepts and refuses exactly what Redis does, because a proxy that disagrees with the server
// about where a request ends allows request smuggling.
//
//	request.go          requests: Parser, Cut and their limits
//	inline.go           arguments of inline requests
//	reply.go            reply elements: ParseHead, and the Append functions
//	reader.go           Reader: frames from a connection, without a buffer while it waits
//	number.go, word.go  numbers and keywords as the server reads them
package resp
