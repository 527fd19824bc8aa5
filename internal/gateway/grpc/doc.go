// Package grpc is the gateway for gRPC: a proxy of HTTP/2 streams that compresses,
// recompresses and opens the messages in them, as each side can read and policy wants.
//
// In reading order:
//
//	gateway.go   what is configured, and the seam that all gateways share
//	session.go   a client's connection: golang.org/x/net's HTTP/2 server
//	call.go      one call from its headers to its trailers; bodies.go, how bodies are read
//	negotiate.go which encoding goes on which hop; encodings.go, what the next one reads;
//	             inquiry.go, how it is asked, own.go, calls of the gateway's own; presume.go,
//	             what connections tell each other of links
//	plan.go      what becomes of the messages of one direction
//	rewrite.go   a body whose messages are changed: gather.go, how they get into memory;
//	             open.go, compress.go, measure.go, what is done with one; grant.go, the memory
//	             that it holds; cache.go, what becomes of its copies
//	pair.go      dictionaries between two gateways; partner.go, the near one's view of the
//	             far one, peer.go, the reverse
//	link.go      connections of two gateways that are compressed as a whole
//	tape.go      what was sent, to send it again
//	headers.go   what is handed on of headers and trailers
//	status.go    statuses that the gateway itself answers with
//	pool.go      connections to the upstream; batch.go, how connections write;
//	             alive.go, how a dead one is noticed
//
// HTTP/2 itself is golang.org/x/net's, on both sides: framing, header compression, flow
// control and its defences against hostile peers. Bodies are pulled through, request and
// response each by one goroutine, so that a slow reader stops its own sender and nobody
// else, and what a stream holds is bounded by the windows that we advertise.
package grpc
