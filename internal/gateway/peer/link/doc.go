// Package link carries connections between two Cinches as streams with history: what goes over one is compressed with
// what has gone over it before, one history a direction. docs/PEER.md has the protocol. Tunnels carry their clients'
// connections over links, gateways for gRPC, HTTP and MongoDB those between them, with HTTP/2 inside.
//
//	bytes -> Link.Collect, Link.Send -> sender.encode ==> peer ==> Link.Next, Gathered.Add -> bytes
//
// In reading order:
//
//	linkconn.go       a link as a net.Conn
//	hello.go          how a connection becomes a link
//	key.go            proofs that both gateways have the same key
//	link.go           one link, as its owner sees it
//	localwriter.go    bytes on their way to a connection on our side
//	sender.go         pieces into frames, and who may write to a link when
//	choose.go         which codec a piece gets
//	receiver.go       frames into bytes, and when to grant a larger window
//	metrics.go        what is shown of all that
//	endpoint.go       what all links of a gateway share: configuration, memory, what is known of peers
//	support.go        whether an upstream accepts links
//	fargateway.go     an upstream to which links are opened while it accepts them
//	speed.go          the setting "auto"
//	historymemory.go  the bound on what all streams remember
package link
