// Package mongo is the gateway for MongoDB: it stands between drivers and one server and
// compresses what crosses the link between itself and the server, message by message,
// whatever the driver can do.
//
// Read it in this order:
//
//	gateway.go   what a gateway is made of, and the seam: Serve and Shutdown
//	session.go   one client: two connections, two pumps that never wait for each other
//	reader.go    messages out of a connection, within the budget
//	request.go   what a request is about: command, namespace, shape
//	commands.go  the table: which commands are never compressed, which have large replies
//	rewrite.go   what becomes of a request, decided together with the fate of its reply
//	replies.go   replies, found by the request that they answer
//	pending.go   the requests that wait for replies
//	hello.go     handshakes: compression and addresses in them are rewritten
//	login.go     which logins pass: those that are the client's own
//	topology.go  which gateway stands for which member of a replica set
//	standby.go   several gateways to one replica set: who is named when one dies
//	balance.go   the gateway as a load balancer for a replica set's primary
//	stepdown.go  what ends the balancer's sessions to a primary that is one no more
//	shapes.go    what replies of each kind of request were like
//	auto.go      link and codecs measured, for rules that leave the choice to us
//	frame.go     OP_COMPRESSED opened and made
//	meet.go      the gateway's own question who the server is
//	pairing.go   two gateways: what they agree on, and who decides what
//	pair.go      the two ends of a direction between them: frames and dictionaries
//	topics.go    what messages are about, for dictionaries and for measuring
//	metrics.go   link and choices, for Prometheus
//
// # The mirror
//
// A server answers a compressed request with the same compressor and a plain one plainly,
// whatever the sizes. So whether a reply is worth compressing is decided when its request is
// sent, by what replies to such requests were like: a small find may be wrapped at a loss
// because of what it brings back, and a ping never is.
//
// # Two sides
//
// Client and server side negotiate independently. Upstream the handshake offers what the
// policy uses, and only what the server took is used. A client sees what it offered as far
// as we have it, and nothing when it offered nothing; what it sends compressed is answered
// compressed, as the server itself would.
//
//	client -> pumpRequests -> open -> rewrite: plain, or compressed by policy -> upstream
//	              |    pending: by request id    |
//	client <- pumpReplies  <- as the request came  <- open  <----------- upstream
package mongo
