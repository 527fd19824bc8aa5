package http

import (
	"mime"
	"net"
	"net/http"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/policy"
)

// choose finds what is to be made of a body of n bytes, -1 if nobody knows, whose receiver reads some codings.
func (e *common) choose(a policy.MessageAddress, h http.Header, n int64, can codings) (recoding, bool) {
	a.Size = int(max(n, 0))
	rule := e.lookup(a, n < 0)
	if rule == nil || mustStay(h) {
		return recoding{}, false
	}
	from, known := codingOf(h)
	c := recoding{rule: rule, from: from}
	if c.setting, c.to = settingFor(rule, can); c.to == "" {
		return e.leave(c, leftUnread, n)
	}
	switch {
	case !known:
		return e.leave(c, leftForeign, n)
	case c.from == c.to:
		return e.leave(c, leftSame, n)
	case n > int64(e.cfg.MaxCompress):
		return e.leave(c, leftLarge, n)
	}
	return c, true
}

func (e *common) leave(c recoding, reason string, n int64) (recoding, bool) {
	if c.rule == nil {
		return recoding{}, false // no rule wanted anything
	}
	e.cfg.Stats.Left(c.rule.Name, reason, int(max(n, 0)))
	return recoding{}, false
}

// lookup returns the first rule that covers a body, nil if that says raw. Of unknown length it is the first one whatever the
// sizes.
func (e *common) lookup(a policy.MessageAddress, anySize bool) *policy.MessageRule {
	p := e.policy.Load()
	if !anySize {
		return p.Lookup(a)
	}
	if rules := p.Covering(nil, a); len(rules) > 0 && !rules[0].Raw() {
		return rules[0]
	}
	return nil
}

// settingFor is what a rule compresses with for who reads some codings, and the name of that; "" if it is not among those.
func settingFor(rule *policy.MessageRule, can codings) (codec.Setting, string) {
	if rule.Auto {
		name := can.best()
		id, err := codec.ParseID(name)
		if err != nil {
			return codec.Setting{}, ""
		}
		return codec.Setting{Codec: id}, name
	}
	name := rule.Setting.Codec.String()
	if !can.has(name) {
		return codec.Setting{}, ""
	}
	return rule.Setting, name
}

// addressOf is what rules see of a request, or of the reply to it with that header.
func addressOf(in *http.Request, d policy.Direction, h http.Header) policy.MessageAddress {
	return policy.MessageAddress{
		Space: []byte(in.URL.Path), Command: []byte(in.Method), Host: []byte(hostOf(in)),
		Type: []byte(mediaType(h.Get("Content-Type"))), Direction: d,
	}
}

func hostOf(in *http.Request) string {
	if host, _, err := net.SplitHostPort(in.Host); err == nil {
		return host
	}
	return in.Host
}

// mediaType is a content type without its parameters.
func mediaType(field string) string {
	if t, _, err := mime.ParseMediaType(field); err == nil || t != "" {
		return t
	}
	return ""
}
