// Package mongo implements the gateway for MongoDB. It stands between drivers and one server and compresses
// messages on the link between itself and the server, one by one, whatever the driver supports.
//
// In reading order. The path of a request and its reply:
//
//	gateway.go      Gateway: Serve and Shutdown
//	session.go      one client's session: handleRequest carries a request from the client to the server
//	rewrite.go      parses the request: command, namespace, shape; chooses its form, together with that of its reply
//	namespaces.go   further namespaces that a command names, and cursors that no rule covers
//	replies.go      handleReply carries a reply from the server to the client
//	message.go      reads messages from a connection
//	commands.go     the table of commands
//	pending.go      requests that wait for replies
//	compression.go  shared by the sessions of a gateway: current policy, compressors; OP_COMPRESSED
//	estimate.go     estimates savings from measurements: link, codecs and replies to each kind of request
//	measure.go      measures messages by namespace and command, for statistics
//	hello.go        rewrites compression and addresses in handshakes, in both directions
//	login.go        lets only logins pass that prove the client's own identity
//	links.go        links to a gateway beside the server: discovery, and a stream for each client
//	far.go          links from gateways beside the clients
//	trace.go        spans of traced requests
//	errors.go       error classes, and replies made by the gateway
//	config.go       configuration
//	metrics.go      metrics of all gateways of a process, for Prometheus
//
// Replica sets, and requests sent by the gateway itself:
//
//	primary.go      the gateway as a load balancer for a replica set's primary
//	stepdown.go     ends the balancer's sessions to a former primary
//	arbiter.go      several gateways to one replica set: failover when one dies
//	watcher.go      session of a driver that watches a standby
//	topology.go     maps members of a replica set to gateways and their addresses
//	ask.go          requests to servers: their names and roles, whether they require a login
//
// # Replies mirror requests
//
// A server replies to a compressed request with the same compressor and to a plain one uncompressed, whatever
// the sizes. So whether a reply is worth compressing is decided when its request is sent, from earlier
// replies to such requests: a small find may be compressed at a loss for the sake of its reply, a ping never
// is.
//
// # Links compress what they carry
//
// If the server is another gateway that accepts links, a client's connection to it is a stream on a link, and messages
// go plain in it. A rule decides only whether a message enters the link's history.
//
// # Client and server negotiate separately
//
// Upstream, the handshake offers the compressors that the policy uses, and only those that the server
// accepted are used. A client is told the compressors that it offered and the gateway supports. A compressed
// request of the client gets a compressed reply, as from the server itself.
//
//	client -> handleRequest: decompress, parse, rewrite: plain or compressed --------> server
//	              |    pending: by request ID    |
//	client <- handleReply: form: compressed as the request was <- decompress <------ server
package mongo
