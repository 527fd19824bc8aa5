// Package mongo is the gateway for MongoDB: it stands between drivers and one server and
// compresses what crosses the link between itself and the server, message by message,
// whatever the driver can do.
//
// Read it in this order. The way of a request and its reply:
//
//	gateway.go      what a gateway is made of, and the seam: Serve and Shutdown
//	session.go      one client: handleRequest carries a request from the client to the server
//	rewrite.go      in which form it goes there, decided together with that of its reply
//	replies.go      handleReply carries a reply from the server to the client
//	message.go      messages cut out of a connection; OP_COMPRESSED opened and made
//	commands.go     what a request is about: command, namespace, shape; the table of commands
//	pending.go      the requests that wait for replies
//	estimate.go     what compressing would save: link, codecs and replies to each kind of request, measured
//	compression.go  what the sessions of a gateway share for that: the policy in force, codecs, measurements
//	topics.go       what messages are about, for dictionaries and for measuring
//	hello.go        handshakes: compression and addresses in them are rewritten, both ways
//	login.go        which logins pass: those that are the client's own
//	pair.go         frames between two gateways: who decides what, and when they need a dictionary
//	trace.go        spans of requests that are traced
//	errors.go       what errors are called, and replies of the gateway's own
//	config.go       what a gateway is told
//	metrics.go      the gateways of a process, for Prometheus
//
// Replica sets, and questions of the gateway's own:
//
//	balance.go      the gateway as a load balancer for a replica set's primary
//	stepdown.go     what ends the balancer's sessions to a primary that is one no more
//	standby.go      several gateways to one replica set: who is named when one dies
//	watcher.go      a driver that watches a standby
//	topology.go     which gateway stands for which member of a replica set, and at which address
//	ask.go          questions to servers: who they are, whether they ask for a login
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
//	client -> handleRequest: open, parse, rewrite: plain, or compressed by policy -> server
//	              |    pending: by request id    |
//	client <- handleReply: form: as the request came <- open <--------------------- server
package mongo
