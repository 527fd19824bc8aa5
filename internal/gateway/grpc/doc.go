// Package grpc implements the gateway for gRPC: a proxy of HTTP/2 streams that compresses, recompresses and
// decompresses their messages, as far as each side can read the result and the policy asks for it.
//
// In reading order:
//
//	gateway.go   the gateway: NewGateway, Serve, Shutdown; config.go, its configuration; metrics.go
//	session.go   a client's connection: package http2's server, and the calls that a drain ends
//	call.go      one call from its headers to its trailers: every call runs ServeHTTP, try, answer and end
//	trace.go     the trace of a call
//
// Decisions about a call before any of its body is sent:
//
//	negotiate.go the encoding on each hop, and the rules that apply
//	laned.go     calls over links with lanes, on which both ends remember messages (package lanes)
//	status.go    statuses of the gateway's own answers
//
// The upstream:
//
//	upstreamconn.go
//	             a connection, its use by calls, pools of them, and the detection of dead ones
//	dial.go      opening connections, and facts about the upstream that connections share; oncelogger.go, logging
//	             such facts once
//	probe.go     asking a server which encodings it reads, and detecting refusals; capabilities.go, what is known
//	             of a server
//
// Messages:
//
//	rewrite.go   a body whose messages change; compress.go, decompress.go, measure.go, operations on a
//	             message
//	messagecache.go
//	             the cache of compressed messages
//
// Common parts:
//
//	replay.go    recording a request to send it again, and reading bodies
//	link.go      connections of two gateways that are compressed as a whole
//	peerfields.go names and headers that gateways agree on
//
// Package http2 implements HTTP/2 on both sides: header compression, flow control and the defences against
// hostile peers. Bodies are pulled: one goroutine reads the request and another the response, or one reads
// both if the request has arrived completely. So a slow reader stops only its own sender, and the memory of a
// stream is bounded by the windows that the gateway advertises.
package grpc
