package grpc

import (
	"context"
	"net"
	"time"

	"github.com/cinch-layer/cinch/internal/policy"
)

// linker turns connections between gateways into links; link.Endpoint implements it. Over a link, messages are sent
// uncompressed or as columns, and the link compresses the whole byte stream with the bytes sent before as history.
type linker interface {
	Enter(ctx context.Context, c net.Conn, client string) (net.Conn, error)
	IsHello(first []byte) bool
	Accept(c net.Conn, ahead []byte) (net.Conn, error)
}

// LinkMode selects which clients' calls share a link, and with it a compression history: see docs/PEER.md.
type LinkMode int

// The modes. With NoLink the gateway opens no links to the upstream. In every mode it accepts links from clients if
// Config.Links and Config.Peers are set. With LinkPerClient each client connection has its own connections to the
// upstream. With LinkDefault it gets them once the upstream is known to accept links; until then all clients share
// connections.
const (
	NoLink LinkMode = iota
	LinkPerClient
	LinkShared
	LinkDefault
)

// firstByteTimeout limits the time until a client sends its first byte.
const firstByteTimeout = 10 * time.Second

// acceptLink reads a client's first byte, and accepts a link if the client asks for one. It returns the connection to
// serve, nil if it failed; the bytes that were read from c already; and whether c is a link (carried).
func acceptLink(links linker, conn net.Conn) (c net.Conn, ahead []byte, carried bool) {
	ahead = make([]byte, 1)
	_ = conn.SetReadDeadline(time.Now().Add(firstByteTimeout))
	if _, err := conn.Read(ahead); err != nil {
		return nil, nil, false
	}
	_ = conn.SetReadDeadline(time.Time{})
	if !links.IsHello(ahead) {
		return conn, ahead, false
	}
	c, err := links.Accept(conn, ahead)
	if err != nil {
		return nil, nil, false
	}
	return c, nil, true
}

// overLink returns the rules for messages that are sent over a link.
func overLink(rules []*policy.MessageRule) []*policy.MessageRule {
	out := make([]*policy.MessageRule, len(rules))
	for i, r := range rules {
		out[i] = r.ForLink()
	}
	return out
}
