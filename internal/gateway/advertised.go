package gateway

import "net"

// Advertised is where clients reach a gateway, as the protocols tell it that name servers in
// their replies.
type Advertised struct {
	Host string // "": the host that the client dialled
	Port string
}

// AdvertisedAs is what the configuration says of a gateway that listens on l, else the
// listener's address, and where that means all interfaces the one that the client has
// found. ok is false for a unix socket of which nothing is said.
func AdvertisedAs(configured string, l net.Addr) (a Advertised, ok bool) {
	text := configured
	if text == "" {
		text = l.String()
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil || l.Network() == "unix" && configured == "" {
		return Advertised{}, false
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = ""
	}
	return Advertised{host, port}, true
}

// HostFor is the host for a client whose connection ends at local.
func (a Advertised) HostFor(local net.Addr) string {
	if a.Host != "" {
		return a.Host
	}
	if tcp, ok := local.(*net.TCPAddr); ok && !tcp.IP.IsUnspecified() {
		return tcp.IP.String()
	}
	return "localhost"
}

// SeenFrom is the address for a client whose connection ends at local.
func (a Advertised) SeenFrom(local net.Addr) string {
	return net.JoinHostPort(a.HostFor(local), a.Port)
}
