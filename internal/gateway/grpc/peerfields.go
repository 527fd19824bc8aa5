package grpc

import "github.com/cinch-layer/cinch/internal/gateway/peer/lanes"

// Names and headers that gateways use among each other. docs/GRPC.md describes the whole exchange.

// gatewayToken in a request's grpc-accept-encoding tells a gateway that its client is a gateway too. It is not
// forwarded. The response's grpc-accept-encoding then tells that client what it may send: first the encodings that the
// upstream itself lists, then the token, then the encodings that this gateway reads. Other clients are not told, and
// the gateway that asked removes the token and all that follows: applications would see a header that the upstream did
// not send.
const gatewayToken = "cinch"

// originalHeader tells the next gateway which encoding a call's client used, if messages have another one by now.
// Messages that the client had compressed are then marked in their flag, so that the server gets each message as the
// client sent it.
const originalHeader = "Cinch-Original-Encoding"

// linkToken in the list of encodings that a gateway sends to another one announces that it accepts links.
const linkToken = "cinch-link"

// isPrivate reports whether a name in grpc-accept-encoding is for gateways only.
func isPrivate(name string) bool {
	return name == gatewayToken || name == linkToken || name == lanes.Encoding
}
