package grpc

import "github.com/cinch-layer/cinch/internal/gateway/h2"

// pool holds connections to the upstream.
type pool struct {
	*h2.Pool[*hop]
	dialer *dialer
}

// newPool makes a pool of at most so many connections, for all clients or for one.
func newPool(d *dialer, most int, one bool) *pool {
	return &pool{h2.NewPool(h2.PoolConfig[*hop]{Connect: d.connect, Most: most, Linger: pairTimeout, OneClient: one, Apart: d.setApart, Faults: d.speaks.Faults}), d}
}

// setApart counts and logs that a client's connection gets connections to the upstream of its own.
func (d *dialer) setApart(client string) {
	d.up.Stats.Error("resets")
	d.log.Warn("a client cancels many calls, so its calls get connections to the upstream of their own: servers end connections with many resets",
		"client", client, "upstream", d.up.String())
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
