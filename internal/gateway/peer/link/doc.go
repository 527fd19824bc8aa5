// Package link makes connections between two gateways links: the bytes in each direction are compressed with a history
// of the bytes sent before them. docs/PEER.md specifies the protocol. A tunnel carries each client connection over a
// link. Gateways for gRPC, HTTP and MongoDB speak HTTP/2 inside links.
//
//	bytes -> Link.Collect, Link.Send -> sender.encode ==> peer ==> Link.Next, Gathered.Add -> bytes
//
// In reading order:
//
//	linkconn.go       a link as a net.Conn
//	hello.go          the exchange of hellos
//	key.go            proofs that both gateways have the same key
//	link.go           the methods of a link for its owner
//	localwriter.go    gathers received bytes for a local connection
//	sender.go         compresses pieces, and writes frames
//	choose.go         chooses the codec of a piece
//	receiver.go       reads frames, decompresses pieces, and grants windows
//	memory.go         memory of bytes in flight
//	historymemory.go  memory of histories, and shares of it
//	endpoint.go       state common to all links of a gateway
//	support.go        whether an upstream accepts links
//	fargateway.go     opens links to an upstream while it accepts them
//	speed.go          the setting "auto"
//	metrics.go        Prometheus metrics
package link
