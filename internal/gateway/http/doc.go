// Package http is the gateway for HTTP/1.1 and HTTP/2: a reverse proxy that gives the bodies of requests another content
// coding, as policy wants and the upstream can read, and those of replies one that the client accepts. What it must not touch
// passes as it came; docs/HTTP.md says what that is.
//
// Read it in this order. The way of a request and its reply:
//
//	gateway.go    what a gateway is made of, and the seam: Serve and Shutdown
//	session.go    a client's connection: net/http's server for HTTP/1.1, h2's for HTTP/2, and which of them it speaks
//	handler.go    ServeHTTP serves one exchange by httputil's reverse proxy: what is refused, and what the server would make of replies
//	rewrite.go    rewrite makes the request that goes to the upstream, RoundTrip sends it, once more if the upstream does not take its coding
//	choose.go     which rule, to which coding: what the upstream reads, what a client accepts, what must stay as it is
//	coder.go      from one coding to another
//	replies.go    reply gives the body of a reply the coding that the client accepts
//	trip.go       what an exchange holds, what all have in common, and how one fails
//
// Bodies:
//
//	whole.go      in memory; stream.go, compressed as they come
//	heads.go      what net/http's server does not tell of headers
//
// Two gateways:
//
//	near.go       what the near one sends, and receives
//	far.go        what the far one does with it
//	farside.go    the connections that the near one has, and what both ends of one remember
//	agreed.go     the words between two gateways
//
// Connections to the upstream:
//
//	transport.go  HTTP/1.1 or HTTP/2; pool.go, those of HTTP/2
//	config.go     what a gateway is told
//
// HTTP itself is not in here: HTTP/1.1 is net/http's, on both sides, HTTP/2 is h2's, and the rules of proxies are
// httputil.ReverseProxy's.
package http
