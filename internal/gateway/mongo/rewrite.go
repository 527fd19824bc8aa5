package mongo

import (
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// requestSnappy is the level of snappy for requests, the one that Go drivers use. With level 1 inserts of
// many documents are a tenth larger.
const requestSnappy = 2

// rewrite returns the request as it goes to the server, compressed if that saves enough on it and its reply, and records
// in x the decisions about the reply. covered means that the history of a link may have the request: a link compresses
// what it carries. The caller gives pooled back to the pool when out has been sent.
func (s *session) rewrite(r *request, x *exchange) (out, pooled []byte, covered bool) {
	if r.name == nil || r.traits&neverCompressed != 0 {
		return r.plain, nil, false
	}
	fromGateway, linked := s.nearClient.Load(), s.toServer.stream != nil
	if s.nsCommands.sample || s.toClient.stream != nil {
		x.nsCommand = s.nsCommands.get(r.namespace, r.name)
	}
	if linked {
		return r.plain, nil, s.inHistory(r.namespace, r.name, policy.Request, len(r.plain))
	}
	if fromGateway { // the server is near
		return r.plain, nil, false
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
	if lead == nil {
		return r.plain, nil, false
	}
	out, pooled, x.reason = s.compressRequest(r, &est, p.Force)
	if x.reason != "" && est.requestRule != nil {
		s.stats.Left(est.requestRule.Name, x.reason, len(r.plain))
	}
	return out, pooled, true
}

// inHistory reports whether the history of a link may have a message: a rule covers it, and the gateway's budgets leave
// time for compressing.
func (s *session) inHistory(namespace, command []byte, d policy.Direction, n int) bool {
	return s.policy.Load().Lookup(policy.MessageAddress{Space: namespace, Command: command, Direction: d, Size: n}) != nil &&
		!s.effort.IsSteppedDown()
}

// compressRequest returns a request compressed if that saves enough; otherwise plain, and reason says why.
func (s *session) compressRequest(r *request, est *estimate, forced bool) (out, pooled []byte, reason string) {
	accepted := compressorSet(s.accepted.Load())
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
