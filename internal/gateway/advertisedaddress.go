package gateway

import "net"

// Advertised is the address at which clients reach a gateway. Protocols that name servers in their replies
// use it.
type Advertised struct {
	Host string // "": the host that the client dialled
	Port string
}

// ParseAdvertised parses the configured address. If configured is empty, it uses the address l of the listener.
// If the address is unspecified (all interfaces), Host stays empty. ok is false for a unix socket without a
// configured address.
func ParseAdvertised(configured string, l net.Addr) (a Advertised, ok bool) {
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

// HostFor returns the host for a client whose connection ends at local.
func (a Advertised) HostFor(local net.Addr) string {
	if a.Host != "" {
		return a.Host
	}
	if tcp, ok := local.(*net.TCPAddr); ok && !tcp.IP.IsUnspecified() {
		return tcp.IP.String()
	}
	return "localhost"
}

// AddressFor returns the "host:port" for a client whose connection ends at local.
func (a Advertised) AddressFor(local net.Addr) string {
	return net.JoinHostPort(a.HostFor(local), a.Port)
}
