// Package http2 implements HTTP/2 (RFC 9113) for gateways: a server and a client, each for one connection, made
// so that a small call costs little.
//
// In reading order:
//
//	server.go    a client's connection: requests become calls of a handler; draining
//	serverstream.go
//	             one request: its headers, its body, its handler's goroutine; responsewriter.go,
//	             its response
//	pool.go      connections to a server; fairshare.go, how clients share streams; resets.go, clients that
//	             reset much
//	client.go    a connection to a server; sending.go, a request to send; clientstream.go, a request being sent
//	conn.go      the part common to both ends: streams, settings, closing
//	frames.go    incoming frames and read-ahead; headers.go, header blocks, their limits and names
//	stream.go    one stream: its unread data, its windows, its end; streamconn.go, the stream of a CONNECT
//	             request as a connection
//	output.go    queued frames and the goroutine that writes them
//	secretframes.go
//	             frames that are kept out of the history of a link
//	context.go   contexts of requests; errors.go
//
// Frames are parsed and written by golang.org/x/net/http2's Framer, header blocks by its hpack. Compared with
// that package's server and client, this package saves goroutine wake-ups and system calls:
//
//   - One goroutine per connection reads. It handles all frames of a read before it wakes other goroutines,
//     so that a goroutine waiting for headers, a message and trailers that arrive together wakes once.
//   - A sender does not wake a goroutine that writes. It adds frames to a buffer; the first sender to do so
//     lets all runnable goroutines run, and then writes the buffer in one system call, without blocking. A
//     goroutine writes only what the system does not take. (Connections without non-blocking writes, TLS and
//     links, always have one.)
//   - Small reads and writes bypass Go's scheduler, which would wake its monitor thread each time
//     (gateway.DirectReader).
//   - A body that has arrived completely is handed over as one buffer (ReadWhole, NewSending), and is sent by
//     the caller of Send, in one piece.
//   - Handlers run in reused goroutines, whose stacks have already grown.
//   - Streams and their headers are kept in memory of earlier ones. It is reused only if the connection, timers,
//     contexts and goroutines that end late refer to it no longer (stream.isUnused, Sending.Release, Releaser).
//
// Memory is bounded whatever a peer sends: bodies by the windows that this end advertises; header lists by
// their limit, before and after decoding; streams by this end's limit, which includes streams that were reset
// while their handlers run; queued output by maxQueuedBytes, at which data waits, and by maxControlBytes,
// beyond which control frames end the connection.
package http2
