// Package gateway is the server that the gateways of all protocols share. It
// accepts connections, speaks TLS, keeps limits, counts bytes while they move,
// and drains at shutdown. It knows nothing of any protocol: what happens on a
// connection is the business of the [Session] that a protocol's package makes.
//
// In reading order:
//
//	server.go    accept, limits, one goroutine a session, drain
//	pump.go      the life of a session that has a pump for requests and one for replies
//	conn.go      connections that count their bytes, half-close, vectored writes
//	first.go     waiting for bytes without holding a buffer
//	upstream.go  where a gateway connects to
//	listen.go    TCP addresses and unix sockets
//	tls.go       TLS from files that may change while we run
//	budget.go    the bound on bytes of values in flight, and why it can't deadlock;
//	             share.go, account.go, waiting.go whose they are; judge.go who is too slow
//	inbound.go   messages that take memory as they come; door.go who may not send long ones
//	buffers.go   pooled byte buffers
//	stats.go     what the gateways count; metrics.go shows it to Prometheus,
//	             snapshot.go to the admin page
//
// The life of a connection:
//
//	Serve -> admit -> serve (own goroutine) -> handshake -> NewSession -> Run
//	                                              Shutdown -> Drain ---^
package gateway
