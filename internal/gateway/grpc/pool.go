package grpc

import "github.com/cinch-layer/cinch/internal/gateway/h2"

// pool holds connections to the upstream.
type pool struct {
	*h2.Pool[*hop]
	dialer *dialer
}

// newPool makes a pool of at most so many connections.
func newPool(d *dialer, most int) *pool {
	return &pool{h2.NewPool(h2.PoolConfig[*hop]{Connect: d.connect, Most: most, Linger: pairTimeout}), d}
}

// drop keeps a connection from new calls that has just refused one, unless it refused no
// more than a stream. It is closed when its last call has ended.
func (p *pool) drop(h *hop, err error) {
	if unusable(err) {
		p.Retire(h)
	}
}

// replace keeps new calls from a connection that has been answered and could be a link. Those that it
// has go on.
func (p *pool) replace(h *hop) {
	if p.dialer.shouldBeLink(h) {
		p.Retire(h)
	}
}
