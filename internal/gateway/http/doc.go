// Package http is the gateway for HTTP/1.1 and HTTP/2: a reverse proxy that gives the bodies of requests another content
// coding, as policy wants and the upstream can read, and those of replies one that the client accepts. What it must not touch
// passes as it came; docs/HTTP.md says what that is.
//
// In reading order:
//
//	gateway.go    what a gateway is made of, and the seam: Serve and Shutdown
//	session.go    a client's connection: net/http's server for HTTP/1.1, h2's for HTTP/2
//	meet.go       which of them a client speaks; heads.go, what net/http's does not tell of it
//	refuse.go     what no upstream is to see
//	handler.go    one exchange from its request to its reply, by httputil's reverse proxy
//	writer.go     what the server would make of replies
//	rewrite.go    the bodies of requests; collect.go, those of which nobody says how long they are
//	far.go        what the far one of two gateways does with what the near one sends
//	near.go       what the near one sends, and receives
//	again.go      what is sent once more, when the upstream did not take what we made of it
//	replies.go    the bodies of replies
//	choose.go     which rule, and to which coding
//	trip.go       what an exchange holds, what all have in common, and how one fails
//
// Two gateways:
//
//	farside.go    the connections that the near one has; carrier.go, one of them
//	histories.go  what both ends of one remember
//
// Bodies:
//
//	stream.go     as they come; whole.go, in memory; estimates.go, what could be made of them
//	coder.go      from one coding to another
//
// What is decided by:
//
//	untouched.go  what stays as it is
//	knowledge.go  what the upstream reads; accept.go, what headers say of that
//	transport.go  connections to the upstream; pool.go, those of HTTP/2
//	config.go     what a gateway is told
//	agreed.go     the words between two gateways
//
// HTTP itself is not in here: HTTP/1.1 is net/http's, on both sides, HTTP/2 is h2's, and the rules of proxies are
// httputil.ReverseProxy's.
package http
