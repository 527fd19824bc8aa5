// Package tunnel carries any TCP protocol through a pair of gateways: an entry near the
// clients and an exit near the server. What travels between them is compressed as a stream
// with history, one a direction and client connection. docs/TUNNEL.md has the protocol.
//
//	client -> entry: session.pumpOut -> sender.piece  == link ==>  exit: session.pumpIn -> server
//	client <- entry: session.pumpIn  <- receiver.next  <== link ==  exit: session.pumpOut <- server
//
// In reading order:
//
//	gateway.go   configuration, serving, one session a client connection
//	session.go   two pumps, half-close, resets
//	sender.go    pieces into frames, and who may write to the link when
//	choose.go    which codec a piece gets
//	receiver.go  frames into bytes, and when to grant a larger window
//	history.go   the bound on what all streams remember
//	link.go      hellos; links made in advance
//	carrier.go   connections of other gateways, in place of a listener
//	auto.go      the setting "auto"
package tunnel
