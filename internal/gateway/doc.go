// Package gateway contains the server that the gateways of all protocols share. It accepts connections,
// speaks TLS, enforces limits, counts bytes as they move, and drains at shutdown. It knows no protocol: each
// protocol has a package of its own, which provides the [Session] that serves a connection.
//
// In reading order:
//
//	server.go            accept, one goroutine a session, drain
//	connlimit.go         limits on connections, shared by client address
//	listen.go            TCP addresses and unix sockets
//	alpn.go              protocols offered by ALPN
//	proxyheader.go       addresses of clients behind load balancers, from PROXY headers
//	loopbackguard.go     refuses remote clients if the server requires no login and is reached over loopback
//	reachabilitylog.go   logs when the upstream becomes unreachable, and reachable again
//	ownaddress.go        prevents connecting to the gateway itself
//	advertisedaddress.go the gateway's address in replies that name servers
//	pumpedsession.go     lifecycle of a session with one goroutine for requests and one for replies
//	inbound.go           reads messages within the memory budget
//	authgate.go          limits messages before login
//	progress.go          progress of a session, for the stall detector of package memory
//	errors.go            classes and texts of errors; recovers panics; logs and counts how sessions end
//	conn.go              connections that count bytes, wait without holding a buffer, half-close, write vectors
//	relay.go             copies one connection to another
//	directcall_linux.go  small reads and writes without scheduler calls
//	tcpinfo_linux.go     asks the kernel for the bytes received and acknowledged, and whether a connection was reset
//	receivepace.go       measures how fast the bytes of a message come in
//	compress.go          compresses values and counts them; Effort keeps that within CPU and latency budgets
//	stats.go             counters of a gateway; metrics.go exports them, snapshot.go returns them for the admin page
//	sparselog.go         limits equal log lines
//
// Lifecycle of a connection:
//
//	Serve -> admit -> serve (own goroutine) -> handshake -> NewSession -> Run
//	                                              Shutdown -> Drain ---^
package gateway
