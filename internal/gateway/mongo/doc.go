// Package mongo is the gateway for MongoDB: it stands between drivers and one server and
// compresses what crosses the link between itself and the server, message by message,
// whatever the driver can do.
//
// Read it in this order; what is higher uses what is lower. Above all is metrics.go, which shows
// Prometheus the gateways of a process. The way of a request and its reply:
//
//	gateway.go      what a gateway is made of, and the seam: Serve and Shutdown
//	session.go      one client: requests are carried here, and pass what is below
//	replies.go      the pump that carries replies
//	hello.go        handshakes: compression and addresses in them are rewritten
//	rewrite.go      what becomes of a request, decided together with the fate of its reply
//	recode.go       in which form the client gets a reply, and what is learnt from it
//	compression.go  what the sessions of a gateway compress by, and learn
//	pending.go      the requests that wait for replies
//	trace.go        spans of those that are traced
//	sender.go       messages to one peer, one at a time
//	config.go       what a gateway is told
//
// Replica sets, and questions of the gateway's own:
//
//	watcher.go      a driver that watches a standby
//	standby.go      several gateways to one replica set: who is named when one dies
//	balance.go      the gateway as a load balancer for a replica set's primary
//	stepdown.go     what ends the balancer's sessions to a primary that is one no more
//	ask.go          questions to servers: who they are, whether they ask for a login
//	addresses.go    by which addresses clients find members
//	topology.go     which gateway stands for which member of a replica set
//
// What sessions agree on with either side, and pairs of gateways:
//
//	sides.go        what was agreed on, and who decides what between two gateways
//	description.go  what a server says of itself, and what clients see of that
//	login.go        which logins pass: those that are the client's own
//	ending.go       what errors are called
//	reply.go        one reply, read
//	reader.go       messages out of a connection, within the budget
//	speaker.go      the sending end of a pair: frames, and when they need a dictionary
//	hearer.go       the receiving end
//	pairs.go        what all pairs of a gateway share: the shelf of dictionaries
//	offers.go       lists of compressors in handshakes
//	announced.go    which dictionaries gateways have, in handshakes
//	lsid.go         identifiers of sessions, which are taken out of frames
//	refusals.go       replies of the gateway's own
//
// Deciding and measuring:
//
//	frame.go        OP_COMPRESSED opened and made
//	auto.go         link and codecs measured, for rules that leave the choice to us
//	bargain.go      a request and its reply: what compressing them saves
//	forecasts.go    what replies to each kind of request were like
//	rules.go        the policy in force, and what servers are offered because of it
//	request.go      what a request is about: command, namespace, shape
//	commands.go     the table: which commands are never compressed, which have large replies
//	topics.go       what messages are about, for dictionaries and for measuring
//	reads.go        what tells that a client may read a collection
//	compressors.go  which compressors there are
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
//	client <- replyPump    <- as the request came  <- open  <----------- upstream
package mongo
