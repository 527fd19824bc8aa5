package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
)

// LoopbackGuard refuses clients on other machines if the server requires no login and is reached over
// loopback or a unix socket. Such a server relies on being unreachable from other machines (Redis' protected
// mode, MongoDB's default bindIp), and a gateway would remove this protection. A server that can't be asked
// counts as one that requires no login.
type LoopbackGuard struct {
	Off   bool // the operator allows it, or clients need a certificate
	Probe *AuthProbe
}

// ErrOpenListener is returned for a client that a LoopbackGuard refuses.
var ErrOpenListener = errors.New("the server asks no client for a password and only its own machine can reach it, so clients on other machines " +
	"are refused: set a password on the server, or set allow_open_listener: true")

// Check returns ErrOpenListener if the client must not use this connection to the server; client and upstream are the
// two connections of a session that has not begun.
func (g *LoopbackGuard) Check(ctx context.Context, client, upstream net.Conn) error {
	if g.Off || isLoopback(peerAddr(client)) || !isLoopback(upstream.RemoteAddr()) || g.Probe.RequiresAuth(ctx) {
		return nil
	}
	return ErrOpenListener
}

// peerAddr returns the address at the other end of the connection. It ignores PROXY headers.
func peerAddr(c net.Conn) net.Addr {
	c = accepted(c)
	if wrapped, ok := c.(*Conn); ok {
		c = wrapped.Conn
	}
	return c.RemoteAddr()
}

// Refused counts and logs a client that Check has refused.
func (g *LoopbackGuard) Refused(log *slog.Logger, stats *Stats, client net.Conn) {
	stats.Error("open_listener")
	log.Warn("client refused", "client", client.RemoteAddr().String(), "err", ErrOpenListener)
}

// isLoopback reports whether the address is certainly on this machine.
func isLoopback(a net.Addr) bool {
	if a == nil {
		return false
	}
	if a.Network() == "unix" {
		return true
	}
	at, err := netip.ParseAddrPort(a.String())
	return err == nil && at.Addr().Unmap().IsLoopback()
}
