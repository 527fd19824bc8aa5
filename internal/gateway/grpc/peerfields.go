package grpc

import "github.com/cinch-layer/cinch/internal/gateway/peer/lanes"

// What gateways agree on stands here; docs/GRPC.md has the whole exchange.

// gatewayToken in a request's grpc-accept-encoding tells a gateway that its client is one
// too, and is passed on to no one else. Such a client is told in the response's
// grpc-accept-encoding what it may send: first what the upstream reads by its own word, then
// the token, then what we open. Others are not told, and the gateway that asked takes it off
// again from the token on: applications would see a header that the upstream did not send.
const gatewayToken = "cinch"

// originalHeader tells the next gateway the encoding of a call's client, where messages have
// another by now. Those that the client had compressed are marked in their flag then, so that
// the server gets each as it was sent.
const originalHeader = "Cinch-Original-Encoding"

// linkToken in the list that a gateway gives another says that it takes links.
const linkToken = "cinch-link"

// isPrivate reports whether a name in grpc-accept-encoding is for gateways only.
func isPrivate(name string) bool {
	return name == gatewayToken || name == linkToken || name == lanes.Encoding
}
