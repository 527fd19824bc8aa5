// Package tunnel carries any TCP protocol through a pair of gateways: an entry near the
// clients and an exit near the server. The data between them is compressed as a stream with
// history, one for each direction of each client connection. Package link implements that, and
// docs/TUNNEL.md describes the protocol.
//
//	client -> entry: session.pumpOut -> link.Send  == link ==>  exit: session.pumpIn -> server
//	client <- entry: session.pumpIn  <- link.Next  <== link ==  exit: session.pumpOut <- server
//
// In reading order:
//
//	gateway.go   serving, one session for each client connection; config.go, the configuration
//	session.go   two pumps, half-close, resets
//	spares.go    links made in advance
package tunnel
