package grpc

import (
	"net/http"
	"slices"

	"github.com/cinch-layer/cinch/internal/gateway/sampled"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/grpc"
)

// pairTerms is the part of a call's negotiation that is about dictionaries.
type pairTerms struct {
	dicts  *dictionaries
	path   string
	peer   *peer  // what the client's connection has told us; nil: the client is no gateway
	listed bool   // the client listed the private encoding
	held   heldBy // by the client, for replies
	watch  bool   // all messages are measured
	seen   *sampled.Samples
}

// meet takes what a client's request says of dictionaries. fromGateway is what it says of itself.
func (t *pairTerms) meet(r *http.Request, fromGateway bool) {
	t.path = r.URL.Path
	if t.listed = t.listed && fromGateway && t.peer != nil; t.listed {
		t.held = wire.ParseIDs(r.Header.Get(heldHeader))
	}
}

// opens reports whether messages of that encoding of the client's are ours to open.
func (t *pairTerms) opens(encoding string) bool { return encoding == pairEncoding && t.peer != nil }

// toPartner replaces the encoding that a rule wants by a private one where the upstream is
// a gateway that takes it.
func toPartner(r *policy.MessageRule, k *knowledge) string {
	if r.HasDictionary() && k.partner.ready() {
		return pairEncoding
	}
	if k.laned {
		return toLanes(encodingOf(r.Setting))
	}
	return encodingOf(r.Setting)
}

// request completes the plan for requests.
func (t *pairTerms) request(p *plan, k *knowledge) {
	if !t.watch && p.from != pairEncoding && p.to != pairEncoding {
		return
	}
	p.pair = &pairing{method: t.path, direction: policy.Request, watch: t.watch, samples: t.seen}
	if p.from == pairEncoding && t.peer != nil {
		p.pair.prev = t.peer
	}
	if p.to == pairEncoding {
		p.pair.next = k.partner
	}
}

// reply completes the plan for replies. has are the dictionaries that the request has
// listed to the upstream.
func (t *pairTerms) reply(p *plan, has *fetched) {
	if !t.watch && p.from != pairEncoding && p.to != pairEncoding {
		return
	}
	p.pair = &pairing{method: t.path, direction: policy.Reply, watch: t.watch, samples: t.seen}
	if p.from == pairEncoding && has != nil {
		p.pair.prev = has
	}
	if p.to == pairEncoding && t.listed {
		p.pair.next = t.held
	}
}

// ask completes a request's headers where rules for replies have dictionaries, and returns what they
// list. The private encoding is named to no server that has not named it.
func (t *pairTerms) ask(h http.Header, replies []*policy.MessageRule, k *knowledge) *fetched {
	delete(h, heldHeader)
	if k.carried || !k.partner.ready() || !slices.ContainsFunc(replies, (*policy.MessageRule).HasDictionary) {
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

// tell completes a response's headers: a dictionary that the client has not got yet.
func (t *pairTerms) tell(h http.Header, p *plan) {
	delete(h, offerHeader)
	delete(h, missingHeader)
	if p.pair == nil || p.pair.next == nil {
		return
	}
	for _, r := range p.rules {
		d := t.dicts.forRule(r, p.pair)
		if d != nil && !p.pair.next.has(d) && wire.Nameable(d.Number()) && len(d.Content()) <= maxPairDict {
			h[offerHeader] = []string{hexHash(d.Hash())}
			return
		}
	}
}
