// Package grpc is the gateway for gRPC: a proxy of HTTP/2 streams that compresses,
// recompresses and opens the messages in them, as each side can read and policy wants.
//
// In reading order:
//
//	gateway.go   what a gateway is made of, and the seam: Serve and Shutdown; config.go what it is told; metrics.go
//	session.go   a client's connection: package h2's server, and which of its calls a drain ends
//	call.go      one call from its headers to its trailers: ServeHTTP, try, answer and end are the way of all calls
//	trace.go     its trace, for those that have one
//
// What is decided about a call, before a byte of its body moves:
//
//	negotiate.go which encoding goes on which hop, and by which rules
//	laned.go     calls over links whose ends remember messages, with package lanes
//	peer.go      the far gateway's view of the near one
//	status.go    statuses that the gateway itself answers with
//
// The upstream:
//
//	pool.go      connections as calls take them; dial.go, how they are made; alive.go, how a dead
//	             one is noticed; hop.go, one of them
//	inquiry.go   how a server is asked what it reads; knowledge.go, what is known of it;
//	             refusals.go, how it says no
//	partner.go   the near gateway's view of the far one
//	own.go       calls of the gateway's own, by which both of these work
//	presume.go   what connections tell each other of links; notices.go, what the log says once
//
// Messages:
//
//	rewrite.go   a body whose messages are changed; open.go, compress.go, measure.go, what is done with one;
//	             estimates.go, what could be
//	cache.go     what becomes of their copies
//	dictionaries.go
//	             those that the gateway has
//
// Below all that:
//
//	tape.go      what was sent, to send it again, and how bodies are read
//	link.go      connections of two gateways that are compressed as a whole
//	agreed.go    the words between two gateways
//	http2.go     what both sides say of HTTP/2
//
// HTTP/2 itself is package h2's, on both sides: header compression, flow control and the defences
// against hostile peers. Bodies are pulled through, request and response each by one goroutine, or by
// one for both where the request is here already, so that a slow reader stops its own sender and nobody
// else, and what a stream holds is bounded by the windows that we advertise.
package grpc
