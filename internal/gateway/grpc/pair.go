package grpc

import (
	"net/http"

	"github.com/cinch-layer/cinch/codec"
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

// meet takes what a client says of dictionaries, and keeps it from the upstream. It reports
// false when the client uses the private encoding where it must not.
func (n *negotiation) meet(g *Gateway, p *peer, h http.Header, path string) bool {
	n.pair.path, n.pair.peer, n.pair.watch = path, p, g.cfg.Sample
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
		c.g.cfg.Stats.Error("encoding_refused")
		return true
	}
	return false
}
