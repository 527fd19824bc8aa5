// Package gateway is the server that the gateways of all protocols share. It
// accepts connections, speaks TLS, keeps limits, counts bytes while they move,
// and drains at shutdown. It knows nothing of any protocol: what happens on a
// connection is the business of the [Session] that a protocol's package makes.
//
// In reading order:
//
//	server.go    accept, one goroutine a session, drain
//	connlimit.go how many connections, shared by client address
//	listen.go    TCP addresses and unix sockets; tls.go files that may change while we run
//	pump.go      the life of a session that has a pump for requests and one for replies
//	proxy.go     addresses of clients behind balancers
//	inbound.go   messages that take memory as they come; door.go who may not send long ones
//	loopback.go  clients that must not reach a server which counts on being reached over loopback only
//	reach.go     whether the upstream is reached; upstream.go where that is, descriptors.go and
//	             unanswered.go why a connection to it is not had, or not kept
//	metrics.go   what Prometheus is shown; snapshot.go what the admin page is
//	flow.go      what the judge sees of a session
//	account.go   what one connection holds of the bytes of values in flight; waiting.go the queue for more,
//	             judge.go who is too slow, turns.go what lies beyond the shares, share.go whose they are,
//	             budget.go the bound, and why it can't deadlock
//	end.go       how sessions end, in logs and counters; unopened.go values that don't open
//	conn.go      connections that count their bytes, wait for them without holding a buffer, half-close, write vectors;
//	             brief_linux.go moves few bytes without a word to the scheduler, pace.go knows how fast they come
//	buffers.go   pooled byte buffers
//	stats.go     what the gateways count
//	compress.go  values compressed within the budgets of a gateway, and counted
//
// The life of a connection:
//
//	Serve -> admit -> serve (own goroutine) -> handshake -> NewSession -> Run
//	                                              Shutdown -> Drain ---^
package gateway
