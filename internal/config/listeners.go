package config

import (
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
)

// Listener is an address that the process listens on.
type Listener struct {
	Path    string // of the key
	Address string // host:port or unix:/path
}

// Listeners returns the addresses of the admin page, the gateways and their Sentinels.
func (c *Config) Listeners() (all []Listener) {
	add := func(path, address string) {
		if address != "" && address != Off {
			all = append(all, Listener{path, address})
		}
	}
	add("admin.listen", c.Admin.Listen)
	for i := range c.Gateways {
		g := &c.Gateways[i]
		add(g.path+".listen", g.Listen)
		add(g.path+".sentinel", g.Sentinel)
	}
	return all
}

// listeners refuses listeners whose address an earlier one has taken.
func (v *validator) listeners() {
	all := v.c.Listeners()
	for i, l := range all {
		for _, other := range all[:i] {
			if !sameListener(l.Address, other.Address) {
				continue
			}
			if l.Address == other.Address {
				v.add(l.Path, "", "%s is already the address of %s", l.Address, other.Path)
			} else {
				v.add(l.Path, "choose another port", "%s is used by %s, %s", l.Address, other.Path, other.Address)
			}
			break
		}
	}
}

// sameListener reports whether a process can't listen on both addresses. Names other than localhost are not
// looked up, but compared as text.
func sameListener(a, b string) bool {
	socketA, unixA := strings.CutPrefix(a, "unix:")
	socketB, unixB := strings.CutPrefix(b, "unix:")
	if unixA || unixB {
		clean := func(path string) string { return filepath.Clean(strings.TrimPrefix(path, "//")) }
		return unixA && unixB && clean(socketA) == clean(socketB)
	}
	hostA, portA, errA := splitListen(a)
	hostB, portB, errB := splitListen(b)
	if errA != nil || errB != nil || portA != portB || portA == 0 {
		return false
	}
	// Go listens on both families for 0.0.0.0 and for [::].
	return hostA == hostB || hostA == anyAddress || hostB == anyAddress
}

// anyAddress stands for all addresses of the machine.
const anyAddress = ""

// splitListen returns a normalized host, and the port.
func splitListen(address string) (host string, port int, err error) {
	host, number, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	if port, err = strconv.Atoi(number); err != nil {
		return "", 0, err
	}
	if host = strings.ToLower(host); host == "localhost" {
		host = "127.0.0.1" // Go prefers IPv4
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		if host = ip.Unmap().String(); ip.Unmap().IsUnspecified() {
			host = anyAddress
		}
	}
	return host, port, nil
}
