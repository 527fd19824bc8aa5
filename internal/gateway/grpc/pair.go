package grpc

import (
	"fmt"
	"net/http"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/internal/autodict"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/grpc"
)

// pairTerms is the part of a call's negotiation that is about dictionaries.
type pairTerms struct {
	path   string
	peer   *peer  // what the client's connection has told us; nil: the client is no gateway
	listed bool   // the client listed the private encoding
	held   heldBy // by the client, for replies
	watch  bool   // all messages are measured
}

// pairing is what one direction of a call may do with dictionaries. It does not change
// during the call.
type pairing struct {
	method    string
	direction policy.Direction
	next      holder   // which the receiver has; nil: none are used
	prev      numbered // which the sender may name; nil: none
	watch     bool
}

// meet takes what a client says of dictionaries, and keeps it from the upstream. It reports
// false when the client uses the private encoding where it must not.
func (n *negotiation) meet(g *Gateway, p *peer, h http.Header, path string) bool {
	n.pair.path, n.pair.peer, n.pair.watch = path, p, g.config.Sample
	if p != nil && n.fromGateway && n.pair.listed {
		n.pair.held = wire.ParseIDs(h.Get(heldHeader))
	} else {
		n.pair.listed = false
	}
	return n.from != pairEncoding || p != nil
}

// opens reports whether messages of that encoding of the client's are ours to open.
func (t *pairTerms) opens(encoding string) bool { return encoding == pairEncoding && t.peer != nil }

// toPartner replaces the encoding that a rule wants by the private one where the upstream is
// a gateway that takes it.
func toPartner(r *policy.MessageRule, k *knowledge) string {
	if r.HasDictionary() && k.partner.ready() {
		return pairEncoding
	}
	return encodingOf(r.Setting)
}

// pairRequest completes the plan for requests.
func (n *negotiation) pairRequest(p *plan, k *knowledge) {
	if !n.pair.watch && p.from != pairEncoding && p.to != pairEncoding {
		return
	}
	p.pair = &pairing{method: n.pair.path, direction: policy.Request, watch: n.pair.watch}
	if p.from == pairEncoding && n.pair.peer != nil {
		p.pair.prev = n.pair.peer
	}
	if p.to == pairEncoding {
		p.pair.next = k.partner
	}
}

// pairReply completes the plan for replies. has are the dictionaries that the request has
// listed to the upstream.
func (n *negotiation) pairReply(p *plan, has *fetched) {
	if !n.pair.watch && p.from != pairEncoding && p.to != pairEncoding {
		return
	}
	p.pair = &pairing{method: n.pair.path, direction: policy.Reply, watch: n.pair.watch}
	if p.from == pairEncoding && has != nil {
		p.pair.prev = has
	}
	if p.to == pairEncoding && n.pair.listed {
		p.pair.next = n.pair.held
	}
}

// askPair completes a request's headers, and returns what they list. The private encoding is
// named to nobody who has not named it.
func (n *negotiation) askPair(h http.Header, k *knowledge) *fetched {
	delete(h, heldHeader)
	if k.carried || !k.partner.ready() || !wantsDictionary(n.replies) {
		return nil
	}
	list := splitList(h["Grpc-Accept-Encoding"])
	if len(list) == 0 || list[len(list)-1] != gatewayToken {
		return nil
	}
	setList(h, append(list, pairEncoding))
	has := k.partner.fetched.Load()
	if has.header != "" {
		h[heldHeader] = []string{has.header}
	}
	return has
}

func wantsDictionary(rules []*policy.MessageRule) bool {
	for _, r := range rules {
		if r.HasDictionary() {
			return true
		}
	}
	return false
}

// tellPair completes a response's headers: a dictionary that the client has not got yet.
func (n *negotiation) tellPair(g *Gateway, h http.Header, p *plan) {
	delete(h, offerHeader)
	delete(h, missingHeader)
	if p.pair == nil || p.pair.next == nil {
		return
	}
	for _, r := range p.rules {
		d, _ := g.dictionary(r, p.pair)
		if d != nil && !p.pair.next.has(d) && wire.Nameable(d.Number()) && len(d.Content()) <= maxPairDict {
			h[offerHeader] = []string{hexHash(d.Hash())}
			return
		}
	}
}

// dictionary returns what a rule's messages should be compressed with, and the level.
func (g *Gateway) dictionary(r *policy.MessageRule, p *pairing) (*codec.Dict, int) {
	switch {
	case r.Dict != nil:
		return r.Dict, 0
	case r.AutoDict:
		if k := g.kinds.Kind(r, p.method, p.direction); k != nil {
			return k.Dictionary()
		}
	}
	return nil, 0
}

// missingError says that a message names a dictionary that its sender never gave us.
type missingError struct {
	number uint32
	clean  bool // nothing of the call has been handed on
}

func (e *missingError) Error() string {
	return fmt.Sprintf("dictionary %08x is not here", e.number)
}

func (e *missingError) header() string {
	if e.clean {
		return wire.FormatNumber(e.number) + againWord
	}
	return wire.FormatNumber(e.number)
}

// pairRefused learns from a response that the next gateway could not take the private encoding,
// and reports whether the call should be sent again without.
func (c *call) pairRefused(a *attempt, resp *http.Response) bool {
	if !endsWithHeaders(resp) {
		return false
	}
	k, h := a.hop.knows, resp.Header
	if number, again, ok := missingIn(h); ok {
		k.partner.lost(number)
		return again
	}
	if saysNotInstalled(h.Get("Grpc-Status"), h.Get("Grpc-Message"), pairEncoding) {
		k.partner.stop()
		c.g.config.Stats.Error("encoding_refused")
		return true
	}
	return false
}

// kindOf returns the kind that messages under a rule belong to, nil if nobody counts them.
// A call has few rules, and mostly one.
func (w *rewriter) kindOf(rule *policy.MessageRule) *autodict.Kind {
	p := w.plan.pair
	switch {
	case p == nil:
		return nil
	case rule != nil && rule.AutoDict && p.next != nil:
	case p.watch:
		rule = nil
	default:
		return nil
	}
	if w.kind == nil || w.kindRule != rule {
		w.kind, w.kindRule = w.g.kinds.Kind(rule, p.method, p.direction), rule
	}
	return w.kind
}

// saw tells that a message went as sent bytes.
func (w *rewriter) saw(rule *policy.MessageRule, message []byte, sent int) {
	if k := w.kindOf(rule); k != nil {
		k.Observe(message, sent)
	}
}

// dictFor returns the dictionary to compress a message of n bytes with, which the receiver
// has. It reports false when there will be one that the receiver has not got yet: what
// messages take meanwhile says nothing about it.
func (w *rewriter) dictFor(rule *policy.MessageRule, n int) (d *codec.Dict, level int, settled bool) {
	p := w.plan.pair
	if p == nil || p.next == nil || !rule.HasDictionary() || n > autodict.MaxMessageSample {
		return nil, 0, true
	}
	if d = rule.Dict; d == nil {
		k := w.kindOf(rule)
		if k == nil {
			return nil, 0, true
		}
		d, level = k.Dictionary()
	}
	if d == nil || p.next.has(d) {
		return d, level, true
	}
	return nil, 0, false
}

// compressed returns a message compressed, with a dictionary if there is one. It also reports
// whether the result counts for dictionaries to come.
func (w *rewriter) compressed(rule *policy.MessageRule, in []byte) (_ packed, settled bool, err error) {
	d, level, settled := w.dictFor(rule, len(in))
	if d == nil {
		p, err := w.g.config.Cache.compress(w.ctx, in, rule.Setting)
		return p, settled, err
	}
	s := rule.Setting
	if level > 0 {
		s.Level = level
	}
	s.Dict = d.Number()
	buf := gateway.GetBuffer(codec.MaxEncodedLen(codec.Zstd, len(in)) + 8)
	out, err := w.g.config.Engine.Compress(wire.AppendPaired(buf, d.Number()), in, s, d)
	if err == nil {
		w.g.pairs.Messages.Compressed.Add(1)
	}
	return packed{out, true}, settled, err
}

// passPlain sends a plain message that no rule covers as it is, but for a look into it.
func (w *rewriter) passPlain(h wire.Header) error {
	k := w.kindOf(nil)
	n := int(h.Len)
	if k == nil {
		return w.letPass(h)
	}
	if !k.Wants(n) {
		k.Passed(n)
		return w.letPass(h)
	}
	in, err := w.gather(n)
	if err != nil {
		return err
	}
	w.send(in, false)
	if len(in) == n {
		k.Observe(in, n)
	} else {
		w.putLength(n)
	}
	gateway.PutBuffer(in)
	return nil
}

// passCompressed sends a message on that has the right encoding.
func (w *rewriter) passCompressed(h wire.Header) error {
	if k := w.kindOf(nil); k != nil {
		k.PassedCompressed(int(h.Len))
	}
	return w.letPass(h)
}

// openPaired opens a message of the private encoding behind dst; see expand for the limit.
func (w *rewriter) openPaired(dst, in []byte, limit int) ([]byte, error) {
	m, err := wire.ParsePaired(in)
	switch {
	case err != nil:
		return nil, err
	case m.Number == 0:
		return w.openWithin(limit, func(limit int) ([]byte, error) {
			return w.g.config.Codecs.AppendDecompress(dst, in, codec.Zstd.String(), limit)
		})
	case m.Len > uint64(w.g.config.MaxOpen):
		return nil, grpccodec.ErrTooLarge
	}
	d := w.plan.pair.prev.find(m.Number)
	if d == nil {
		return nil, &missingError{m.Number, !w.given}
	}
	if int(m.Len) > limit {
		if err := w.roomForMost(limit); err != nil {
			return nil, err
		}
	}
	out, err := w.g.config.Engine.Decompress(dst, m.Frame, codec.Zstd, int(m.Len), d)
	if err == nil {
		w.g.pairs.Messages.Opened.Add(1)
	}
	return out, err
}
