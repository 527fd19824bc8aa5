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

// exchange is what waits for the reply. wants says whether a gateway that has sent the request
// may get that in a frame.
func (d *decision) exchange(r *request, wants bool) exchange {
	e := exchange{
		id: r.header.RequestID, client: r.came, shape: r.shape, topic: r.topic, reads: r.reads,
		logsIn: r.traits&endsLogin != 0, retried: r.traits&retriedRead != 0 && !r.writes, rule: d.reply, reason: d.reason,
		awaits: r.awaits,
	}
	if r.traits&neverCompressed != 0 {
		e.client, e.shape = plain, 0
	}
	if r.came == wire.BetweenGateways && !wants {
		e.client = plain
	}
	return e
}

func (d *decision) free() { gateway.PutBuffer(d.pooled) }

// requestSnappy is the level of snappy that drivers in Go use for requests: what level 1 makes
// of inserts of many documents is a tenth larger.
const requestSnappy = 2

// rewriter says what becomes of a session's requests.
type rewriter struct {
	*compression
	sides *sides
}

// decide says whether to compress a request, from what that saves on it and on its reply.
func (w *rewriter) decide(r *request) decision {
	d := decision{bytes: r.message}
	if r.name == nil || r.traits&neverCompressed != 0 {
		return d
	}
	if w.topics.sample || w.sides.paired() {
		r.topic = w.topics.of(r.space, r.name)
	}
	if w.sides.fromClient.on.Load() {
		return d // its rules hold on the way to us, and the server is near
	}
	p := w.rules.current()
	own := p.Lookup(policy.MessageAddress{Space: r.space, Command: r.name, Direction: policy.Request, Size: len(r.message)})
	var expected forecast
	if r.answered {
		expected = w.forecasts.expect(r.shape, r.traits)
		d.reply = p.Lookup(policy.MessageAddress{Space: r.space, Command: r.name, Direction: policy.Reply, Size: int(expected.bytes)})
	}
	if own == nil && d.reply == nil {
		return d
	}
	b := bargain{own: own, reply: d.reply, size: len(r.message), expected: expected, answered: r.answered}
	if w.sides.framed(&b) {
		w.frame(r, &d, b)
		return d
	}
	id, level, reason := w.choose(&b, w.sides.ofServer())
	if reason == "" && id != r.came && !p.Force {
		if id, level = w.codecs.lower(id, level, len(r.message), w.sides.ofServer()); id == plain {
			reason = gateway.SteppedDown
		}
	}
	if reason == "" {
		reason = w.compress(r, &d, &b, id, level)
	}
	if d.reason = reason; reason != "" && own != nil {
		w.codecs.stats.Left(own.Name, reason, len(r.message))
	}
	return d
}

// compress makes the request smaller if that pays, and says why not otherwise.
func (w *rewriter) compress(r *request, d *decision, b *bargain, id wire.CompressorID, level int) (reason string) {
	forced := w.rules.current().Force
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
		if compressed = w.codecs.compress(r.message, r.header, id, level); compressed == nil {
			return "error"
		}
		d.pooled = compressed
		w.forecasts.learnOwn(r.shape, len(r.message), len(compressed), id)
	}
	spent := time.Since(began)
	a, _ := algorithmOf(id)
	rule := b.lead().Name
	if gain := float64(len(r.message)-len(compressed)) + saving; (gain <= 0 || gain < b.worth()) && !forced {
		w.codecs.stats.SealTime(rule, a.codec, spent)
		return "no_gain"
	}
	if d.pooled != nil {
		w.link.compressed(id, len(r.message), spent)
	}
	w.codecs.stats.Sealed(rule, a.codec, len(r.message), len(compressed), spent)
	d.bytes = compressed
	return ""
}

// frame says how a request goes to another gateway, and whether its reply may come compressed.
func (w *rewriter) frame(r *request, d *decision, b bargain) {
	o := outgoing{message: r.message, header: r.header, rule: b.own, wants: b.answered && b.reply != nil, open: true}
	left := ""
	if b.own != nil && b.own.Auto {
		if _, _, left = w.link.choose(&bargain{own: b.own, size: b.size, expected: b.expected}, only); left != "" {
			o.rule = nil
		}
	}
	if o.wants && b.reply.Auto {
		_, _, d.reason = w.link.choose(&bargain{reply: b.reply, expected: b.expected, answered: true}, only)
		o.wants = d.reason == ""
	}
	if o.rule != nil || o.wants {
		now := time.Now()
		o.kind = w.topics.trainedKind(r.topic, o.rule, policy.Request, now)
		var reason string
		d.pooled, reason = w.sides.toServer.frame(&o)
		d.bytes = d.pooled
		if left == "" {
			left = reason
		}
		if left == "" {
			w.forecasts.learnOwn(r.shape, b.size, o.sent, wire.BetweenGateways)
			w.codecs.stats.Sealed(b.own.Name, codec.Zstd, b.size, o.sent, time.Since(now))
		}
	}
	if left != "" && b.own != nil {
		w.codecs.stats.Left(b.own.Name, left, b.size)
	}
}
