package grpc

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway/grpc/lanes"
	"github.com/cinch-layer/cinch/internal/gateway/sampled"
	"github.com/cinch-layer/cinch/internal/policy"
)

// negotiation is what a call's headers and the policy say about its encodings. It does not
// change during the call.
type negotiation struct {
	*accepted
	from     string   // of the client's messages
	accepts  []string // by the client
	carried  bool     // over a link
	original string   // what its client had compressed with, when it says so and marks messages
	requests []*policy.MessageRule
	replies  []*policy.MessageRule
	pairs    pairTerms
	lanes    laneTerms
}

// accepted is what a client's grpc-accept-encoding says. It is never changed.
type accepted struct {
	text        string
	names       []string // of encodings that mean something to others than gateways
	fromGateway bool     // the client is a gateway
	paired      bool     // which takes dictionaries
}

// rememberedList is how many bytes a list may have that is remembered.
const rememberedList = 512

// accepts reads grpc-accept-encoding, unless it is that of the connection's last call.
func accepts(values []string, last *atomic.Pointer[accepted]) *accepted {
	one := len(values) == 1 && len(values[0]) <= rememberedList
	if a := last.Load(); one && a != nil && a.text == values[0] {
		return a
	}
	a := &accepted{}
	for _, name := range splitList(values) {
		if name == gatewayToken {
			a.fromGateway = true
		} else if name == pairEncoding {
			a.paired = true
		} else if name != identity && name != lanes.Encoding { // that is what links have, and nobody asks for
			a.names = append(a.names, name)
		}
	}
	a.names = slices.Clip(a.names)
	if one {
		a.text = values[0]
		last.Store(a)
	}
	return a
}

// negotiate reads a request's headers. carried tells that it has come over a link.
func negotiate(p *policy.Messages, r *http.Request, carried bool, last *atomic.Pointer[accepted]) *negotiation {
	n := &negotiation{from: canonical(r.Header.Get("Grpc-Encoding")), carried: carried, accepted: accepts(r.Header["Grpc-Accept-Encoding"], last)}
	n.accepts, n.pairs.listed = n.names, n.paired
	if from := unlaned(n.from); from != "" && from != pairEncoding && !slices.Contains(n.accepts, from) {
		n.accepts = append(n.accepts, from) // servers answer as they are asked
	}
	if was := r.Header.Get(originalHeader); n.fromGateway && canOpen(was) {
		n.original = was
	}
	service, method, _ := strings.Cut(strings.TrimPrefix(r.RequestURI, "/"), "/")
	a := policy.MessageAddress{Space: []byte(service), Command: []byte(method), Direction: policy.Request}
	n.requests = p.Covering(nil, a)
	a.Direction = policy.Reply
	n.replies = p.Covering(nil, a)
	if carried {
		n.replies = overLink(n.replies)
	}
	return n
}

// pair takes what the client says of dictionaries, if it is a gateway. It reports false when it uses
// the private encoding where it must not.
func (n *negotiation) pair(r *http.Request, p *peer, dicts *dictionaries, samples *sampled.Samples) bool {
	n.pairs.peer, n.pairs.dicts, n.pairs.watch, n.pairs.seen = p, dicts, samples != nil, samples
	n.pairs.meet(r, n.fromGateway)
	return n.from != pairEncoding || p != nil
}

// request plans the client's messages for a server of which k is known.
func (n *negotiation) request(k *knowledge) plan {
	rules := n.rulesTowards(k)
	to, byRule := n.requestEncoding(k, rules)
	p := planFor(n.from, to, rules)
	p.byRule = byRule
	p.marked = n.original != ""
	if p.marked && !byRule && to == n.original {
		id, _ := codec.ParseID(to)
		p.restore = &policy.MessageRule{Name: "as_sent", Setting: codec.Setting{Codec: id}}
	}
	was := cmp.Or(n.original, n.from)
	if k.isGateway() && canOpen(was) && (p.marked || !p.untouched()) {
		p.marks = was
	}
	n.pairs.request(&p, k)
	return p
}

// rulesTowards are the rules for requests to a server.
func (n *negotiation) rulesTowards(k *knowledge) []*policy.MessageRule {
	if k.carried {
		return overLink(n.requests)
	}
	return n.requests
}

// requestEncoding takes only what the server is known to read, or what the client has chosen. It also tells whether a rule
// has decided.
func (n *negotiation) requestEncoding(k *knowledge, rules []*policy.MessageRule) (to string, byRule bool) {
	if n.from != "" && !canOpen(n.from) && !n.pairs.opens(n.from) {
		return n.from, false
	}
	for _, r := range rules {
		want := encodingOf(r.Setting)
		switch reads := k.reads(want); {
		case reads == yes:
			return toPartner(r, k), true
		case reads == unknown && want == n.from && !n.fromGateway:
			return want, true
		}
	}
	sent := cmp.Or(n.original, n.from)
	reads := k.reads(sent)
	if sent == pairEncoding || reads == no || reads == unknown && n.chosenByGateway(sent) {
		return "", false
	}
	return sent, false
}

// chosenByGateway reports whether it may be the gateway before us, and not its client, that has compressed with an encoding.
func (n *negotiation) chosenByGateway(encoding string) bool {
	return n.fromGateway && encoding != n.original
}

// open returns the encodings that messages would have if the server were known to read them.
func (n *negotiation) open(k *knowledge) (encodings []string) {
	add := func(name string) {
		if canOpen(name) && k.reads(name) == unknown && !slices.Contains(encodings, name) {
			encodings = append(encodings, name)
		}
	}
	for _, r := range n.rulesTowards(k) {
		name := encodingOf(r.Setting)
		if k.reads(name) == yes {
			return encodings // those behind it do not matter
		}
		add(name)
	}
	if n.chosenByGateway(n.from) {
		add(n.from)
	}
	return encodings
}

// unread returns the encoding of the first rule if the server reads none that rules name, else "".
func (n *negotiation) unread(k *knowledge) (first string) {
	for _, r := range n.rulesTowards(k) {
		name := encodingOf(r.Setting)
		if name == "" || k.reads(name) != no {
			return ""
		}
		first = cmp.Or(first, name)
	}
	return first
}

// reply plans the messages of a response whose encoding is from. has are the dictionaries
// that the request has listed, nil where it could list none.
func (n *negotiation) reply(from string, has *fetched) plan {
	p := planFor(from, n.replyEncoding(from, has != nil), n.replies)
	n.pairs.reply(&p, has)
	return p
}

// replyEncoding is the encoding of the client's replies. paired tells that the request could list dictionaries.
func (n *negotiation) replyEncoding(from string, paired bool) string {
	if from != "" && !canOpen(unlaned(from)) && !(paired && from == pairEncoding) {
		return from
	}
	for _, r := range n.replies {
		if n.pairs.listed && r.HasDictionary() {
			return pairEncoding
		}
		if want := encodingOf(r.Setting); n.clientReads(want) {
			return n.lanes.reply(want)
		}
	}
	if n.clientReads(from) {
		return from
	}
	return ""
}

func (n *negotiation) clientReads(encoding string) bool {
	return encoding == "" || slices.Contains(n.accepts, encoding)
}

// ask edits a request's headers: the encoding of its messages, and what the upstream may
// answer with. Where no rule covers the call they stay as they are. It reports whether the
// upstream is told that we are a gateway, and so whether its answer says everything.
func (n *negotiation) ask(h http.Header, p plan, always bool) (told bool) {
	setEncoding(h, p)
	if n.fromGateway {
		delete(h, originalHeader)
	}
	if p.marks != "" {
		h[originalHeader] = []string{p.marks}
	}
	asks := make([]string, 0, 8)
	for _, r := range n.replies {
		if name := encodingOf(r.Setting); name != "" && !n.clientReads(name) && !slices.Contains(asks, name) {
			asks = append(asks, name)
		}
	}
	if told = always || n.fromGateway || len(n.requests) > 0 || len(n.replies) > 0; !told {
		return false
	}
	list := splitList(h["Grpc-Accept-Encoding"])
	setList(h, append(slices.DeleteFunc(list, isPrivate), append(asks, gatewayToken)...))
	return true
}

// edits reports whether the call's own terms may change the headers of a request whose messages stay as they are.
func (n *negotiation) edits() bool {
	return n.fromGateway || n.original != "" || len(n.requests) > 0 || len(n.replies) > 0
}

// tell edits a response's headers: the encoding of its messages, and to another gateway
// what it may send us, which is what we can open or the upstream can.
func (n *negotiation) tell(h http.Header, p plan) {
	setEncoding(h, p)
	list := splitList(h["Grpc-Accept-Encoding"])
	i := slices.Index(list, gatewayToken)
	if i >= 0 {
		list = list[:i]
	}
	if n.fromGateway {
		list = append(append(list, gatewayToken), ownNames...)
		if n.pairs.peer != nil {
			list = append(list, pairEncoding)
			if n.pairs.peer.links {
				list = append(list, linkToken)
			}
		}
	}
	if n.fromGateway || i >= 0 {
		setList(h, list)
	}
}

// setEncoding writes grpc-encoding where it changes.
func setEncoding(h http.Header, p plan) {
	switch {
	case p.from == p.to:
	case p.to == "":
		delete(h, "Grpc-Encoding")
	default:
		h["Grpc-Encoding"] = []string{p.to}
	}
}
