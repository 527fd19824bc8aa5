package gateway

import (
	"log/slog"
	"net"
)

// Peer is one of the two that a session stands between.
type Peer string

// The two.
const (
	FromClient   Peer = "client"
	FromUpstream Peer = "upstream"
)

// LogEnd counts and logs that a conversation with a client was broken off because of what a peer
// sent. class names the violation of the protocol; an ordinary end has none, and is no matter.
func LogEnd(log *slog.Logger, stats *Stats, client net.Conn, who Peer, class string, err error) {
	if class == "" {
		return
	}
	if who == FromUpstream {
		class = "upstream_" + class
	}
	stats.Error(class)
	log.Warn(string(who)+" sent what is not valid, disconnected", "client", client.RemoteAddr().String(), "err", err)
}
