package gateway

import (
	"crypto/tls"
	"sync/atomic"
)

// WithProtocols returns a copy of cfg that offers protocols by ALPN, also in the configurations that
// cfg.GetConfigForClient returns. The copy of the configuration that it returned last is cached, because a tls.Config
// owns the keys of its session tickets. For a nil cfg WithProtocols returns nil.
func WithProtocols(cfg *tls.Config, protocols ...string) *tls.Config {
	if cfg == nil {
		return nil
	}
	out := cfg.Clone()
	out.NextProtos = protocols
	choose := cfg.GetConfigForClient
	if choose == nil {
		return out
	}
	type made struct{ from, to *tls.Config }
	var last atomic.Pointer[made]
	out.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		chosen, err := choose(hello)
		if chosen == nil || err != nil {
			return nil, err
		}
		if m := last.Load(); m != nil && m.from == chosen {
			return m.to, nil
		}
		m := &made{from: chosen, to: chosen.Clone()}
		m.to.NextProtos = protocols
		last.Store(m)
		return m.to, nil
	}
	return out
}
