package mongo

import (
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// requestSnappy is the level of snappy that drivers in Go use for requests: what level 1 makes
// of inserts of many documents is a tenth larger.
const requestSnappy = 2

// rewrite returns the form in which a request goes to the server, by what compressing saves on it and on its reply, and notes in
// waits what that means for the reply. pooled goes back to the pool when it has been sent.
func (s *session) rewrite(r *request, waits *exchange) (out, pooled []byte) {
	if r.name == nil || r.traits&neverCompressed != 0 {
		return r.message, nil
	}
	fromGateway, toGateway := s.sides.fromClient.on.Load(), s.sides.fromServer.on.Load()
	if s.topics.sample || fromGateway || toGateway {
		waits.topic = s.topics.of(r.space, r.name)
	}
	if fromGateway {
		return r.message, nil // its rules hold on the way to us, and the server is near
	}
	p := s.policy.Load()
	e := estimate{size: len(r.message), answered: r.answered}
	e.own = p.Lookup(policy.MessageAddress{Space: r.space, Command: r.name, Direction: policy.Request, Size: len(r.message)})
	if r.answered {
		e.expected = s.forecasts.expect(r.shape, r.traits)
		e.reply = p.Lookup(policy.MessageAddress{Space: r.space, Command: r.name, Direction: policy.Reply, Size: int(e.expected.bytes)})
		waits.rule = e.reply
	}
	lead := e.lead()
	switch {
	case lead == nil:
		return r.message, nil
	case toGateway && (lead.Auto || lead.Setting.Codec == codec.Zstd): // what rules say that name another compressor holds
		return s.frameRequest(r, waits, e)
	}
	taken := s.sides.ofServer()
	id, level, reason := s.choose(&e, taken)
	if reason == "" && id != r.came && !p.Force {
		if id, level = s.lower(id, level, len(r.message), taken); id == plain {
			reason = gateway.SteppedDown
		}
	}
	out = r.message
	if reason == "" {
		out, pooled, reason = s.compressRequest(r, &e, id, level, p.Force)
	}
	if waits.reason = reason; reason != "" && e.own != nil {
		s.stats.Left(e.own.Name, reason, len(r.message))
	}
	return out, pooled
}

// compressRequest makes the request smaller if that pays, and says why not otherwise.
func (s *session) compressRequest(r *request, e *estimate, id wire.CompressorID, level int, forced bool) (out, pooled []byte, reason string) {
	saving := e.replySaving(id)
	if saving <= 0 && !forced {
		switch {
		case e.own == nil || len(r.message) < minCompressed:
			return r.message, nil, "small"
		case codec.Incompressible(r.message[wire.HeaderLen:]):
			return r.message, nil, "incompressible"
		}
	}
	began := time.Now()
	compressed := r.wire
	if r.came != id {
		if id == wire.Snappy && level == 0 {
			level = requestSnappy
		}
		if compressed = s.compress(r.message, r.header, id, level); compressed == nil {
			return r.message, nil, "error"
		}
		pooled = compressed
		s.forecasts.learnOwn(r.shape, len(r.message), len(compressed), id)
	}
	spent := time.Since(began)
	a, _ := algorithmOf(id)
	rule := e.lead().Name
	if gain := float64(len(r.message)-len(compressed)) + saving; (gain <= 0 || gain < e.worth()) && !forced {
		s.stats.SealTime(rule, a.codec, spent)
		return r.message, pooled, "no_gain"
	}
	if pooled != nil {
		s.link.measure(&s.link.compresses, id, len(r.message), spent)
	}
	s.stats.Sealed(rule, a.codec, len(r.message), len(compressed), spent)
	return compressed, pooled, ""
}

// frameRequest returns a request in a frame for another gateway, which says whether its reply may come compressed.
func (s *session) frameRequest(r *request, waits *exchange, e estimate) (out, pooled []byte) {
	o := outgoing{message: r.message, header: r.header, rule: e.own, wants: e.answered && e.reply != nil, open: true}
	left := ""
	if e.own != nil && e.own.Auto {
		if _, _, left = s.link.choose(&estimate{own: e.own, size: e.size, expected: e.expected}, only); left != "" {
			o.rule = nil
		}
	}
	if o.wants && e.reply.Auto {
		_, _, waits.reason = s.link.choose(&estimate{reply: e.reply, expected: e.expected, answered: true}, only)
		o.wants = waits.reason == ""
	}
	out = r.message
	if o.rule != nil || o.wants {
		now := time.Now()
		o.kind = s.topics.trainedKind(waits.topic, o.rule, policy.Request, now)
		var reason string
		pooled, reason = s.sides.toServer.frame(&o)
		out = pooled
		if left == "" {
			left = reason
		}
		if left == "" {
			s.forecasts.learnOwn(r.shape, e.size, o.sent, wire.BetweenGateways)
			s.stats.Sealed(e.own.Name, codec.Zstd, e.size, o.sent, time.Since(now))
		}
	}
	if left != "" && e.own != nil {
		s.stats.Left(e.own.Name, left, e.size)
	}
	return out, pooled
}
