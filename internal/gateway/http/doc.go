// Package http is the gateway for HTTP/1.1 and HTTP/2: a reverse proxy that changes the content coding of the
// bodies of requests, as the policy asks for and the upstream can read, and of replies, to one that the client
// accepts. Everything that it must not change passes unchanged; docs/HTTP.md lists that.
//
// Read the files in this order. The path of a request and its reply:
//
//	gateway.go    the gateway: NewGateway, Serve and Shutdown
//	session.go    a client's connection: net/http's server for HTTP/1.1, http2's for HTTP/2, and detecting the version
//	handler.go    ServeHTTP serves one exchange with httputil's reverse proxy: refusals, and replies kept unchanged
//	rewrite.go    rewrite builds the request for the upstream
//	choose.go     which rule, which coding: what the upstream reads, what a client accepts, what must not change
//	coder.go      changing a body from one coding to another
//	replies.go    reply gives the body of a reply the coding that the client accepts
//	exchange.go   the state of an exchange, the state that all share, and how an exchange fails
//
// Bodies:
//
//	whole.go      in memory; stream.go, compressed while they are read
//	lengthcounter.go
//	              header fields that net/http's server does not report
//
// Two gateways:
//
//	near.go       sending requests over links, and receiving replies, at the near gateway; links.go, its links
//	far.go        the same exchanges at the far gateway
//	peerfields.go names and values that two gateways exchange
//
// Connections to the upstream:
//
//	transport.go  sends requests, again if their coding is refused, by HTTP/1.1 or HTTP/2; upstreampool.go, the
//	              connections of HTTP/2
//	config.go     the configuration of a gateway
//
// HTTP itself is implemented elsewhere: HTTP/1.1 by net/http, on both sides, HTTP/2 by http2, and the rules of
// proxies by httputil.ReverseProxy.
package http
