// Package resp cuts the Redis serialization protocol (RESP2 and RESP3, as
// https://redis.io/docs/latest/develop/reference/protocol-spec/ and Redis's own
// networking.c define it) into requests and reply frames, and writes both.
//
// It turns bytes into spans and back and knows nothing of connections or of what a
// command means. Lengths are checked before anything is allocated, and what a caller
// does not change can be forwarded as the bytes that came: a Reader copies frames
// through without holding them.
//
// The parser is as strict and as lenient as Redis is: it takes what the server takes
// and refuses what the server refuses, because a proxy that disagrees with the server
// about where a request ends can be made to smuggle one.
package resp
