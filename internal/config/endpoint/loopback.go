package endpoint

import (
	"net"
	"net/netip"
	"strings"
)

// OnLoopback reports whether an address in a configuration, "host:port" or "unix:/path", can be reached from
// this machine only. It does not look up names.
func OnLoopback(addr string) bool {
	if strings.HasPrefix(addr, "unix:") {
		return true
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// OnLoopback reports whether the upstream's address shows that it is on this machine.
func (up Upstream) OnLoopback() bool { return up.Network == "unix" || OnLoopback(up.Address) }
