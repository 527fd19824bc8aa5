package config

import (
	"math/bits"

	"github.com/cinch-layer/cinch/codec"
)

// TunnelGateway returns one end of a tunnel with defaults for everything but its addresses.
func TunnelGateway(name, protocol, listen, upstream string) Gateway {
	g := RedisGateway(name, listen, upstream, nil)
	g.Protocol = protocol
	return g
}

// IsTunnel reports whether the gateway is one end of a tunnel: it has a setting and no rules.
func (g *Gateway) IsTunnel() bool { return g.Protocol == Tunnel || g.Protocol == TunnelExit }

// WindowLog returns the log2 of Window, or 0 for the default.
func (g *Gateway) WindowLog() int { return max(bits.Len(uint(g.Window))-1, 0) }

// defaultLinks is the number of links that a tunnel's entry opens in advance.
const defaultLinks = 4

// SpareLinks returns the number of links that the gateway opens in advance.
func (g *Gateway) SpareLinks() int {
	switch {
	case g.Protocol == TunnelExit:
		return 0
	case g.Links == nil:
		return defaultLinks
	}
	return *g.Links
}

// tunnel checks the keys of both ends of a tunnel, and refuses them for others.
func (v *validator) tunnel(g *Gateway, path string) {
	if !g.IsTunnel() {
		for key, given := range map[string]bool{"setting": g.Setting != nil, "history": g.History != 0, "links": g.Links != nil} {
			if given {
				v.add(path+"."+key, "", "is only for protocol: tunnel and tunnel-exit")
			}
		}
		return
	}
	if len(g.Rules) > 0 {
		v.add(path+".rules", "write setting, which applies to all connections", "a tunnel does not parse protocols and has no rules")
	}
	if len(g.Exclude) > 0 {
		v.add(path+".exclude", "", "is only for stores")
	}
	checkRange(v, path+".history", g.History, 1<<20, 1<<40)
	v.historyWindow(g.Window, path+".window")
	if n := g.Links; n != nil && (*n < 0 || *n > 1024) {
		v.add(path+".links", "leave it out for the default", "%d is not between 0 and 1024", *n)
	} else if n != nil && g.Protocol == TunnelExit {
		v.add(path+".links", "", "is only for protocol: tunnel")
	}
	v.tunnelSetting(g.Setting, path+".setting")
}

func (v *validator) historyWindow(w Bytes, path string) {
	if w != 0 && (w < 1<<codec.MinStreamWindow || w > 1<<codec.MaxStreamWindow || bits.OnesCount(uint(w)) != 1) {
		v.add(path, "leave it out for 8MiB", "%v is not a power of two from 64KiB to 8MiB", w)
	}
}

func (v *validator) tunnelSetting(s *Setting, path string) {
	if s == nil || s.Auto {
		return
	}
	switch {
	case s.Dict != 0, !isPiece(s.Codec):
		v.add(path, "write auto, zstd-1 to zstd-9, s2, minlz, lz4, snappy or raw", "tunnels do not support %s", s)
	case s.Codec == codec.Zstd && s.Level > codec.MaxStreamLevel:
		v.add(path, "higher levels need tens of megabytes a connection", "tunnels support zstd-1 to zstd-%d", codec.MaxStreamLevel)
	}
}

// isPiece reports whether pieces of a link can be compressed with the codec: internal/gateway/peer/link offers
// these in its hello.
func isPiece(id codec.ID) bool {
	switch id {
	case codec.Raw, codec.Snappy, codec.S2, codec.MinLZ, codec.LZ4, codec.Zstd:
		return true
	}
	return false
}

// TunnelSetting returns the setting that the gateway sends with.
func (g *Gateway) TunnelSetting() Setting {
	switch {
	case !g.Enabled:
		return Setting{}
	case g.Setting == nil:
		return Setting{Auto: true}
	case g.Setting.Codec == codec.Zstd && g.Setting.Level == 0:
		return Setting{Setting: codec.Setting{Codec: codec.Zstd, Level: 3}}
	}
	return *g.Setting
}
