// Package tunnel carries any TCP protocol through a pair of gateways: an entry near the
// clients and an exit near the server. What travels between them is compressed as a stream
// with history, one a direction and client connection: package link does that, and docs/TUNNEL.md
// has the protocol.
//
//	client -> entry: session.pumpOut -> link.Send  == link ==>  exit: session.pumpIn -> server
//	client <- entry: session.pumpIn  <- link.Next  <== link ==  exit: session.pumpOut <- server
//
// In reading order:
//
//	gateway.go   serving, one session a client connection; config.go what it is told
//	session.go   two pumps, half-close, resets
//	spares.go    links made in advance
package tunnel
