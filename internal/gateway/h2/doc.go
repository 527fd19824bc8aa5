// Package h2 speaks HTTP/2 (RFC 9113) for gateways: a server of requests on one connection and a client
// on one connection, made so that a small call costs little.
//
// In reading order:
//
//	server.go    a client's connection: requests become calls of a handler, and how a drain ends it
//	served.go    one request of it: what its headers say, its body, the goroutine of its handler; response.go, what a handler writes
//	pool.go      connections to a server; share.go, how clients share their streams; resets.go, clients that reset much
//	client.go    one of them; sent.go, one request on it
//	conn.go      what both have in common: streams, settings, the end
//	frames.go    what comes, and what is read ahead of it; headers.go, header blocks, their limits and names
//	stream.go    one stream: what came and is not read, what may go, flow control
//	output.go    what waits to be written, and who writes it
//	scope.go     contexts of requests; errors.go
//
// Frames are parsed and written by golang.org/x/net/http2's Framer, header blocks by its hpack. What it spares beside that
// package's server and client is goroutines that wake each other, and system calls:
//
//   - One goroutine a connection reads. It handles all frames that a read has brought before it wakes anybody, so that who
//     waits for headers, a message and trailers that came together wakes once.
//   - Nobody has to wake a goroutine that writes. Who has something to say adds frames to a buffer; the first to do so lets
//     all that can run go before it, and then hands the buffer to the system in one call, without waiting. Only what the
//     system does not take is left to a goroutine. (Connections that can't write without waiting, TLS and links, always have one.)
//   - Go's scheduler is not told of reads and writes of little, which would wake its monitor's thread each time (gateway.BriefReader).
//   - A body that is here already changes hands as one buffer (ReadWhole, NewSending), and is sent by the caller of Send, in one piece.
//   - Handlers run in goroutines that are used again, with stacks that have grown already.
//
// Everything is bounded, whatever a peer sends: bodies by the windows that we advertise, header lists by their limit, before
// they are decoded and after; streams by our limit, with those that were reset while their handlers run; what waits to be written
// by outMost, where data waits and control frames beyond end the connection.
package h2
