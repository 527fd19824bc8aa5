package grpc

import (
	"context"
	"net"
	"time"

	"github.com/cinch-layer/cinch/internal/policy"
)

// linker makes links of connections: an endpoint does. Messages go over such a connection uncompressed or as
// columns, and what passes is compressed with all that has passed before.
type linker interface {
	Enter(context.Context, net.Conn) (net.Conn, error)
	IsHello(first []byte) bool
	Accept(c net.Conn, ahead []byte) (net.Conn, error)
}

// LinkMode says whose calls share a link, and with it a history: see docs/PEER.md.
type LinkMode int

// The modes. NoLink takes links of others, as all do that have Config.Links and Peers. With LinkPerClient each client's
// connection has connections of its own to the upstream. With LinkDefault it has them from when the upstream is known to
// accept links; before that all clients share connections.
const (
	NoLink LinkMode = iota
	LinkPerClient
	LinkShared
	LinkDefault
)

// firstByteTimeout limits the time until a client sends its first byte.
const firstByteTimeout = 10 * time.Second

// acceptLink looks whether a client wants a link, and makes it. It returns what to serve, nil for
// nothing, and what has been read of it.
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

// overLink returns the rules as they are for messages that go over a link.
func overLink(rules []*policy.MessageRule) []*policy.MessageRule {
	out := make([]*policy.MessageRule, len(rules))
	for i, r := range rules {
		out[i] = r.ForLink()
	}
	return out
}
