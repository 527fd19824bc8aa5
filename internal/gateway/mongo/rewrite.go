package mongo

import (
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// decision is what becomes of a request, and with it of its reply.
type decision struct {
	bytes  []byte              // what is sent
	pooled []byte              // what goes back to the pool afterwards
	reply  *policy.MessageRule // that covers the reply; nil: none
	reason string              // why it went plain; "": it did not
}

func (d *decision) free() { gateway.PutBuffer(d.pooled) }

// minCompressed is the length in bytes from which a message may gain by itself.
const minCompressed = 96

// requestSnappy is the level of snappy that drivers in Go use for requests: what level 1 makes
// of inserts of many documents is a tenth larger.
const requestSnappy = 2

// decide says whether to compress a request, from what that saves on it and on its reply.
func (s *session) decide(r *request) decision {
	d := decision{bytes: r.message}
	if r.name == nil || r.traits&neverCompressed != 0 {
		return d
	}
	g, p := s.g, s.g.policy.Load()
	if g.cfg.Sample || s.fromClient.on.Load() || s.fromServer.on.Load() {
		r.topic = g.topics.of(r)
	}
	if s.fromClient.on.Load() {
		return d // its rules hold on the way to us, and the server is near
	}
	own := p.Lookup(policy.MessageAddress{Space: r.space, Command: r.name, Direction: policy.Request, Size: len(r.message)})
	var expected shape
	if r.answered {
		expected = g.shapes.expect(r.shape, r.traits)
		d.reply = p.Lookup(policy.MessageAddress{Space: r.space, Command: r.name, Direction: policy.Reply, Size: int(expected.bytes)})
	}
	if own == nil && d.reply == nil {
		return d
	}
	b := bargain{own: own, reply: d.reply, size: len(r.message), expected: expected, answered: r.answered}
	if s.forPair(&b) {
		s.decidePaired(r, &d, b)
		return d
	}
	id, level, reason := g.choose(&b, compressorSet(s.taken.Load())&^only)
	if reason == "" {
		reason = s.compress(r, &d, &b, id, level)
	}
	if d.reason = reason; reason != "" && own != nil {
		g.cfg.Stats.Left(own.Name, reason, len(r.message))
	}
	return d
}

// bargain is a request with what is expected of its reply.
type bargain struct {
	own, reply *policy.MessageRule // rules that cover them; nil: none
	size       int                 // of the request
	expected   shape               // of the reply
	answered   bool
}

// lead is the rule of the larger message: there can be one compressor only.
func (b *bargain) lead() *policy.MessageRule {
	if b.own == nil || b.reply != nil && b.expected.bytes > float64(b.size) {
		return b.reply
	}
	return b.own
}

// replySaving is how many bytes the reply will save. One that no rule covers is compressed
// along with its request: that may cost, but is not what the rules want.
func (b *bargain) replySaving(id wire.CompressorID) float64 {
	switch saving := b.expected.saving(id); {
	case !b.answered:
		return 0
	case b.reply == nil:
		return min(saving, 0)
	default:
		return saving
	}
}

// worth is how many bytes have to be saved.
func (b *bargain) worth() float64 {
	total := 0.0
	if b.own != nil {
		total += float64(b.size)
	}
	if b.reply != nil {
		total += b.expected.bytes
	}
	return b.lead().MinGain * total
}

// choose picks a compressor that the server took, or says why there is none.
func (g *Gateway) choose(b *bargain, taken compressorSet) (id wire.CompressorID, level int, reason string) {
	if taken == 0 {
		return plain, 0, "not_negotiated"
	}
	lead := b.lead()
	if lead.Auto {
		return g.link.choose(b, taken)
	}
	if id = compressorOf(lead.Setting.Codec); taken.has(id) {
		return id, lead.Setting.Level, ""
	}
	for _, other := range []wire.CompressorID{wire.Snappy, wire.Zstd, wire.Zlib} {
		if taken.has(other) {
			return other, 0, ""
		}
	}
	return plain, 0, "not_negotiated"
}

// compress makes the request smaller if that pays, and says why not otherwise.
func (s *session) compress(r *request, d *decision, b *bargain, id wire.CompressorID, level int) (reason string) {
	forced := s.g.policy.Load().Force
	saving := b.replySaving(id)
	if saving <= 0 && !forced {
		switch {
		case b.own == nil || len(r.message) < minCompressed:
			return "small"
		case codec.Incompressible(r.message[wire.HeaderLen:]):
			return "incompressible"
		}
	}
	began := time.Now()
	compressed := r.wire
	if r.came != id {
		if id == wire.Snappy && level == 0 {
			level = requestSnappy
		}
		if compressed = s.g.compress(r.message, r.header, id, level); compressed == nil {
			return "error"
		}
		d.pooled = compressed
		s.g.shapes.learnOwn(r.shape, len(r.message), len(compressed), id)
	}
	spent := time.Since(began)
	a, _ := algorithmOf(id)
	rule := b.lead().Name
	if gain := float64(len(r.message)-len(compressed)) + saving; (gain <= 0 || gain < b.worth()) && !forced {
		s.g.cfg.Stats.SealTime(rule, a.codec, spent)
		return "no_gain"
	}
	if d.pooled != nil {
		s.g.link.compressed(id, len(r.message), spent)
	}
	s.g.cfg.Stats.Sealed(rule, a.codec, len(r.message), len(compressed), spent)
	d.bytes = compressed
	return ""
}
