package mongo

import (
	"slices"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// A near gateway stands beside the application, a far one beside the server. The near one
// says with each request whether its reply may be compressed, as a compressed request does
// for a server; its rules and its measurements hold for both directions. The far one's rules
// can only leave more plain. What the far one exchanges with the server is not compressed.

// pairWithServer takes what the reply to a hello says about the server.
func (s *session) pairWithServer(d described) {
	taken := d.taken & s.g.offered()
	if taken.has(wire.BetweenGateways) && !s.fromServer.on.Load() {
		s.toServer.told.Store(&d.told)
		s.fromServer.on.Store(true)
		s.g.pairs.Connections.Add(1)
	}
	s.taken.Store(uint32(taken))
}

// pairWithClient takes notice of a client that is a gateway, before it hears that so are we.
func (s *session) pairWithClient(h *handshake) {
	if !slices.Contains(h.shown, wire.BetweenGateways) || s.fromClient.on.Load() {
		return
	}
	s.toClient.told.Store(&h.told)
	s.fromClient.on.Store(true)
	s.g.pairs.Connections.Add(1)
}

// open returns a message without compression. What is pooled goes back to the pool afterwards.
func (s *session) open(h *hearer, m *message) (whole, pooled []byte, err error) {
	switch m.came {
	case plain:
		return m.bytes, nil, nil
	case wire.BetweenGateways:
		pooled, err = h.open(m.bytes, &m.paired)
	default:
		pooled, err = s.g.open(m.bytes, wire.Compressed{Header: m.header, Compressor: m.came})
	}
	return pooled, pooled, err
}

// forPair reports whether a request goes to the server in a frame: what rules say that name
// another compressor holds.
func (s *session) forPair(b *bargain) bool {
	lead := b.lead()
	return s.fromServer.on.Load() && (lead.Auto || lead.Setting.Codec == codec.Zstd)
}

// only is the set of what gateways agree on.
const only compressorSet = 1 << wire.BetweenGateways

// decidePaired says how a request goes to another gateway, and whether its reply may come
// compressed.
func (s *session) decidePaired(r *request, d *decision, b bargain) {
	g := s.g
	o := outgoing{message: r.message, header: r.header, rule: b.own, wants: b.answered && b.reply != nil, open: true}
	left := ""
	if b.own != nil && b.own.Auto {
		if _, _, left = g.link.choose(&bargain{own: b.own, size: b.size, expected: b.expected}, only); left != "" {
			o.rule = nil
		}
	}
	if o.wants && b.reply.Auto {
		_, _, d.reason = g.link.choose(&bargain{reply: b.reply, expected: b.expected, answered: true}, only)
		o.wants = d.reason == ""
	}
	if o.rule != nil || o.wants {
		now := time.Now()
		o.kind = g.trainedKind(r.topic, o.rule, policy.Request, now)
		var reason string
		d.pooled, reason = s.toServer.frame(&o)
		d.bytes = d.pooled
		if left == "" {
			left = reason
		}
		if left == "" {
			g.shapes.learnOwn(r.shape, b.size, o.sent, wire.BetweenGateways)
			g.cfg.Stats.Sealed(b.own.Name, codec.Zstd, b.size, o.sent, time.Since(now))
		}
	}
	if left != "" && b.own != nil {
		g.cfg.Stats.Left(b.own.Name, left, b.size)
	}
}

// replyPaired returns a reply in a frame for the gateway that asked for one, or as it is
// when our rules want that. pooled goes back to the pool afterwards.
func (s *session) replyPaired(e *exchange, h wire.Header, body []byte, began time.Time) (out, pooled []byte) {
	g := s.g
	if e.topic == nil {
		return body, nil
	}
	rule := g.policy.Load().Lookup(e.topic.address(policy.Reply, len(body)))
	if rule == nil {
		return body, nil
	}
	o := outgoing{message: body, header: h, rule: rule}
	if o.open = e.reads && h.OpCode == wire.OpMsg && saysOK(s.reply.Body.Of(body)); o.open {
		s.reads = true
	}
	if s.reads { // what strangers are answered is no sample, and what they name gets no room
		o.kind = g.trainedKind(e.topic, rule, policy.Reply, began)
	}
	now := time.Now()
	out, reason := s.toClient.frame(&o)
	if reason == "" {
		g.cfg.Stats.Sealed(rule.Name, codec.Zstd, len(body), o.sent, time.Since(now))
	} else {
		g.cfg.Stats.Left(rule.Name, reason, len(body))
	}
	return out, out
}

// freePairs gives back what both ends have of other gateways, when both pumps have ended.
func (s *session) freePairs() {
	<-s.Dead()
	s.fromClient.free()
	s.fromServer.free()
}
