// Package gateway contains the server that the gateways of all protocols share. It accepts connections,
// speaks TLS, keeps limits, counts bytes while they move, and drains at shutdown. It is independent of any
// protocol: the package of a protocol provides the [Session] that serves a connection.
//
// In reading order:
//
//	server.go    accept, one goroutine a session, drain
//	connlimit.go limits on connections, shared by client address
//	listen.go    TCP addresses and unix sockets; tls.go protocols offered by ALPN
//	pump.go      lifecycle of a session with a pump for requests and one for replies
//	proxy.go     addresses of clients behind balancers
//	inbound.go   reading messages within the budget; authgate.go limits messages before login
//	loopback.go  refuses remote clients of servers that rely on being reached over loopback
//	reachability.go logs whether the upstream is reachable; ownaddress.go notices that it is the gateway itself
//	metrics.go   counters for Prometheus; snapshot.go for the admin page
//	flow.go      progress of a session, for the stall detector of package memory
//	end.go       logs and counts how sessions end; decodefailure.go values that can't be decoded
//	conn.go      connections that count bytes, wait without holding a buffer, half-close, write vectors;
//	             direct_linux.go small reads and writes without scheduler calls, pace.go their speed
//	stats.go     counters of a gateway
//	compress.go  compresses values within the budgets of a gateway, and counts them
//
// Lifecycle of a connection:
//
//	Serve -> admit -> serve (own goroutine) -> handshake -> NewSession -> Run
//	                                              Shutdown -> Drain ---^
package gateway
