package mongo

import (
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// recoder gives a session's replies the form in which the client wants them, and learns from
// that in which they came.
type recoder struct {
	*compression
	sides *sides
	reads bool // the server has let the client read some collection
}

// learn takes notice of what a reply was like, and counts it under the rule that covers it.
func (c *recoder) learn(e *exchange, r *reply) {
	raw, stats := len(r.body), c.codecs.stats
	if e.shape != 0 {
		c.forecasts.learn(e.shape, raw, len(r.bytes), r.came)
	}
	switch {
	case e.rule == nil:
	case r.paired.Stored:
		stats.Left(e.rule.Name, "peer", raw)
	case r.came != plain:
		stats.Sealed(e.rule.Name, codecOf(r.came), raw, len(r.bytes), 0)
	case e.reason != "":
		stats.Left(e.rule.Name, e.reason, raw)
	default:
		stats.Left(e.rule.Name, "server", raw)
	}
}

// form gives a reply the form of its request: compressed by what that came in, where the
// reply gets smaller, and plain otherwise. What came in that form already passes as it is.
func (c *recoder) form(e *exchange, r *reply, began time.Time) (out, pooled []byte) {
	if e.client == wire.BetweenGateways {
		return c.frame(e, r, began)
	}
	_, known := algorithmOf(e.client)
	if !known || e.client == wire.Noop || len(r.body) < minCompressed {
		return r.body, nil
	}
	if e.client == r.came {
		if len(r.bytes) < len(r.body) {
			return r.bytes, nil
		}
		return r.body, nil
	}
	id, level := c.codecs.lower(e.client, 0, len(r.body), 0)
	if id == plain {
		return r.body, nil
	}
	compressed := c.codecs.compress(r.body, r.header, id, level)
	if compressed == nil || len(compressed) >= len(r.body) {
		return r.body, compressed
	}
	return compressed, compressed
}

// frame returns a reply in a frame for the gateway that asked for one, or as it is
// when our rules want that. pooled goes back to the pool afterwards.
func (c *recoder) frame(e *exchange, r *reply, began time.Time) (out, pooled []byte) {
	if e.topic == nil {
		return r.body, nil
	}
	rule := c.rules.current().Lookup(e.topic.address(policy.Reply, len(r.body)))
	if rule == nil {
		return r.body, nil
	}
	o := outgoing{message: r.body, header: r.header, rule: rule}
	if o.open = e.reads && r.header.OpCode == wire.OpMsg && saysOK(r.doc()); o.open {
		c.reads = true
	}
	if c.reads { // what strangers are answered is no sample, and what they name gets no room
		o.kind = c.topics.trainedKind(e.topic, rule, policy.Reply, began)
	}
	now := time.Now()
	out, reason := c.sides.toClient.frame(&o)
	if reason == "" {
		c.codecs.stats.Sealed(rule.Name, codec.Zstd, len(r.body), o.sent, time.Since(now))
	} else {
		c.codecs.stats.Left(rule.Name, reason, len(r.body))
	}
	return out, out
}
