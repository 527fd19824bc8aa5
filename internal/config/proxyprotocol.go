package config

import (
	"fmt"
	"net/netip"
	"strings"
)

// ProxyTrusted returns the networks from which PROXY headers are accepted; none means all.
func (g *Gateway) ProxyTrusted() ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range g.ProxyFrom {
		p, err := parseNetwork(text)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// parseNetwork reads a network such as 10.0.0.0/8, or a single address.
func parseNetwork(text string) (netip.Prefix, error) {
	if strings.Contains(text, "/") {
		p, err := netip.ParsePrefix(text)
		return p.Masked(), err
	}
	a, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, err
	}
	return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), nil
}

func (v *validator) proxy(g *Gateway, path string) {
	if len(g.ProxyFrom) > 0 && !g.ProxyProtocol {
		v.add(path+".proxy_from", "write proxy_protocol: true", "is only for listeners with proxy_protocol")
	}
	for i, text := range g.ProxyFrom {
		if _, err := parseNetwork(text); err != nil {
			v.add(fmt.Sprintf("%s.proxy_from[%d]", path, i), "write 10.0.0.0/8, or an address", "%q is not a network", text)
		}
	}
}
