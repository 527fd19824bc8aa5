package mongo

import (
	"cmp"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// requestSnappy is the level of snappy for requests, the one that Go drivers use. With level 1 inserts of
// many documents are a tenth larger.
const requestSnappy = 2

// rewrite returns the request as it goes to the server, compressed if that saves enough on it and its reply,
// and records in x the decisions about the reply. The caller gives pooled back to the pool when out has been
// sent.
func (s *session) rewrite(r *request, x *exchange) (out, pooled []byte) {
	if r.name == nil || r.traits&neverCompressed != 0 {
		return r.plain, nil
	}
	fromGateway, toGateway := s.peerFrames.clientIn.on.Load(), s.peerFrames.serverIn.on.Load()
	if s.nsCommands.sample || fromGateway || toGateway {
		x.nsCommand = s.nsCommands.get(r.namespace, r.name)
	}
	if fromGateway {
		return r.plain, nil // the other gateway's rules decide, and the server is near
	}
	p := s.policy.Load()
	est := estimate{requestBytes: len(r.plain), hasReply: r.hasReply}
	est.requestRule = p.Lookup(policy.MessageAddress{Space: r.namespace, Command: r.name, Direction: policy.Request, Size: len(r.plain)})
	if r.hasReply {
		est.expected = s.forecasts.predict(r.shape, r.traits)
		est.replyRule = p.Lookup(policy.MessageAddress{Space: r.namespace, Command: r.name, Direction: policy.Reply, Size: int(est.expected.bytes)})
		x.rule = est.replyRule
	}
	lead := est.mainRule()
	switch {
	case lead == nil:
		return r.plain, nil
	case toGateway && (lead.Auto || lead.Setting.Codec == codec.Zstd): // rules with another compressor are followed
		return s.frameRequest(r, x, &est, p.Force)
	}
	out, pooled, x.reason = s.compressRequest(r, &est, p.Force)
	if x.reason != "" && est.requestRule != nil {
		s.stats.Left(est.requestRule.Name, x.reason, len(r.plain))
	}
	return out, pooled
}

// compressRequest returns a request compressed if that saves enough; otherwise plain, and reason says why.
func (s *session) compressRequest(r *request, est *estimate, forced bool) (out, pooled []byte, reason string) {
	accepted := s.peerFrames.ofServer()
	id, level, reason := s.chooseCompressor(est, accepted)
	if reason == "" && id != r.compressor && !forced {
		if id, level = s.limitEffort(id, level, len(r.plain), accepted); id == plain {
			reason = gateway.SteppedDown
		}
	}
	if reason != "" {
		return r.plain, nil, reason
	}
	saving := est.replySaving(id)
	if saving <= 0 && !forced {
		switch {
		case est.requestRule == nil || len(r.plain) < minCompressed:
			return r.plain, nil, "small"
		case codec.Incompressible(r.plain[wire.HeaderLen:]):
			return r.plain, nil, "incompressible"
		}
	}
	began := time.Now()
	compressed := r.received
	if r.compressor != id {
		if id == wire.Snappy && level == 0 {
			level = requestSnappy
		}
		if compressed = s.compress(r.plain, r.header, id, level); compressed == nil {
			return r.plain, nil, "error"
		}
		pooled = compressed
		s.forecasts.observeRequest(r.shape, len(r.plain), len(compressed), id)
	}
	spent := time.Since(began)
	a, _ := algorithmOf(id)
	rule := est.mainRule().Name
	if est.requestRule != nil { // the request gets smaller here, whichever rule chose the compressor
		rule = est.requestRule.Name
	}
	if gain := float64(len(r.plain)-len(compressed)) + saving; (gain <= 0 || gain < est.minSaving()) && !forced {
		s.stats.SealTime(rule, a.codec, spent)
		return r.plain, pooled, "no_gain"
	}
	if pooled != nil {
		s.link.measure(&s.link.compressSpeed, id, len(r.plain), spent)
	}
	s.stats.Sealed(rule, a.codec, len(r.plain), len(compressed), spent)
	return compressed, pooled, ""
}

// frameRequest returns a request for another gateway: in a frame, which also tells whether the reply may be
// compressed, or as a plain message.
func (s *session) frameRequest(r *request, x *exchange, est *estimate, forced bool) (out, pooled []byte) {
	o := outgoing{message: r.plain, header: r.header, rule: est.requestRule, wants: est.hasReply && est.replyRule != nil, open: true, force: forced}
	reason := "" // why the request is not compressed; x.reason is for the reply
	if est.requestRule != nil && est.requestRule.Auto {
		if _, _, reason = s.link.fastest(&estimate{requestRule: est.requestRule, requestBytes: est.requestBytes, expected: est.expected}, gatewaysOnly); reason != "" {
			o.rule = nil
		}
	}
	if o.wants && est.replyRule.Auto {
		_, _, x.reason = s.link.fastest(&estimate{replyRule: est.replyRule, expected: est.expected, hasReply: true}, gatewaysOnly)
		o.wants = x.reason == ""
	}
	out = r.plain
	if o.rule != nil || o.wants {
		now := time.Now()
		o.kind = s.nsCommands.trainedKind(x.nsCommand, o.rule, policy.Request, now)
		frame, stored := s.peerFrames.serverOut.frame(&o)
		out, pooled = frame, frame
		if reason = cmp.Or(reason, stored); reason == "" {
			s.forecasts.observeRequest(r.shape, est.requestBytes, o.sent, wire.BetweenGateways)
			s.stats.Sealed(est.requestRule.Name, codec.Zstd, est.requestBytes, o.sent, time.Since(now))
		}
	}
	if reason != "" && est.requestRule != nil {
		s.stats.Left(est.requestRule.Name, reason, est.requestBytes)
	}
	return out, pooled
}
