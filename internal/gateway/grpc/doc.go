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
//	hop.go       a connection, how calls take one, and how a dead one is noticed; dial.go, how they are made, and what they
//	             tell each other
//	inquiry.go   how a server is asked what it reads, and how it says no; knowledge.go, what is known of it
//	partner.go   the near gateway's view of the far one
//
// Messages:
//
//	rewrite.go   a body whose messages are changed; open.go, compress.go, measure.go, what is done with one
//	cache.go     what becomes of their copies
//	dictionaries.go
//	             those that the gateway has
//
// Below all that:
//
//	replay.go    what was sent, to send it again, and how bodies are read
//	link.go      connections of two gateways that are compressed as a whole
//	agreed.go    the words between two gateways
//
// HTTP/2 itself is package h2's, on both sides: header compression, flow control and the defences
// against hostile peers. Bodies are pulled through, request and response each by one goroutine, or by
// one for both where the request is here already, so that a slow reader stops its own sender and nobody
// else, and what a stream holds is bounded by the windows that we advertise.
package grpc
