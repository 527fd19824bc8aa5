package grpc

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/internal/gateway/grpc/lanes"
	"github.com/cinch-layer/cinch/internal/gateway/sampled"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/grpc"
)

// terms holds what a call's headers and the policy say about its encodings. It does not change during the call.
type terms struct {
	*acceptEncoding
	path     string
	from     string   // of the client's messages
	accepts  []string // by the client
	carried  bool     // over a link
	original string   // what its client had compressed with, when it says so and marks messages
	requests []*policy.MessageRule
	replies  []*policy.MessageRule
	force    bool // the rules compress even at a loss
	edits    bool // the headers of a request may change even if its messages stay as they are

	dicts   *dictionaries
	peer    *peer            // what the client's connection has told us; nil: the client is no gateway
	listed  bool             // the client is a gateway and lists the encoding with dictionaries
	held    heldBy           // dictionaries that the client has, for replies
	samples *sampled.Samples // of all messages; nil: they are not measured
	lanes   laneTerms        // of the client's link
}

// noTerms are those of a request that is no gRPC call.
var noTerms = &terms{acceptEncoding: noEncodings}

// acceptEncoding holds what a client's grpc-accept-encoding says. It is never changed.
type acceptEncoding struct {
	text        string
	names       []string // of encodings that mean something to others than gateways
	fromGateway bool     // the client is a gateway
	paired      bool     // which takes dictionaries
}

// noEncodings stands for a client that lists no encodings.
var noEncodings = &acceptEncoding{}

// rememberedList is how many bytes a list may have that is remembered.
const rememberedList = 512

// parseAcceptEncoding reads grpc-accept-encoding, unless it is that of the connection's last call.
func parseAcceptEncoding(values []string, last *atomic.Pointer[acceptEncoding]) *acceptEncoding {
	if len(values) == 0 {
		return noEncodings
	}
	one := len(values) == 1 && len(values[0]) <= rememberedList
	if a := last.Load(); one && a != nil && a.text == values[0] {
		return a
	}
	a := &acceptEncoding{}
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

// negotiate reads a request's headers, and finds the rules for the call. It reports false if the client uses an encoding that only
// gateways may, or links with lanes.
func (h *handler) negotiate(r *http.Request) (t *terms, ok bool) {
	t = &terms{
		acceptEncoding: parseAcceptEncoding(r.Header["Grpc-Accept-Encoding"], &h.lastAccept), from: canonical(r.Header.Get("Grpc-Encoding")),
		path: r.URL.Path, carried: h.carried, peer: h.peer, dicts: h.dicts, samples: h.samples,
	}
	t.accepts = t.names
	if t.from != "" && t.from != pairEncoding { // servers answer as they are asked
		if from := unlaned(t.from); !slices.Contains(t.accepts, from) {
			t.accepts = append(t.accepts, from)
		}
	}
	if t.fromGateway {
		if was := r.Header.Get(originalHeader); canOpen(was) {
			t.original = was
		}
		if t.listed = t.paired && h.peer != nil; t.listed {
			t.held = wire.ParseIDs(r.Header.Get(heldHeader))
		}
	}
	rules := h.policy.Load()
	service, method, _ := strings.Cut(strings.TrimPrefix(r.RequestURI, "/"), "/")
	a := policy.MessageAddress{Space: []byte(service), Command: []byte(method), Direction: policy.Request}
	t.requests = rules.Covering(nil, a)
	a.Direction = policy.Reply
	t.replies = rules.Covering(nil, a)
	t.force = rules != nil && rules.Force
	if h.carried {
		t.replies = overLink(t.replies)
	}
	t.edits = t.fromGateway || len(t.requests) > 0 || len(t.replies) > 0
	if t.from == pairEncoding && h.peer == nil || t.from == lanes.Encoding && h.ends == nil {
		return t, false
	}
	if h.ends != nil {
		t.lanes.meet(r.Header, h.ends)
	}
	return t, true
}

// requestPlan holds the result of planRequest.
type requestPlan struct {
	plan
	undecided []string // encodings that messages would have if the server were known to read them
	unread    string   // the encoding of the first rule, if the server reads none that rules name; "": it reads one, or may
}

// planRequest plans the client's messages for a server of which k is known: it takes only what the server is known to
// read, or what the client has chosen.
func (t *terms) planRequest(k *knowledge) (p requestPlan) {
	rules := t.requests
	if k.carried {
		rules = overLink(rules)
	}
	ask := func(name string) {
		if canOpen(name) && !slices.Contains(p.undecided, name) {
			p.undecided = append(p.undecided, name)
		}
	}
	to, byRule, readsOne, readsNone := "", false, false, true
	kept := t.from != "" && !canOpen(t.from) && (t.from != pairEncoding || t.peer == nil) // what can't be opened stays as it is
	for _, r := range rules {
		want := encodingOf(r.Setting)
		reads := yes
		if want != "" {
			reads = k.reads(want)
		}
		if reads == no {
			p.unread = cmp.Or(p.unread, want)
			continue
		}
		readsNone = false
		if !kept && !byRule {
			if reads == yes {
				to, byRule = toPartner(r, k), true
			} else if want == t.from && !t.fromGateway {
				to, byRule = want, true
			}
		}
		if readsOne = reads == yes; readsOne {
			break // those behind it do not matter
		}
		ask(want)
	}
	if !readsNone {
		p.unread = ""
	}
	// chosen reports whether it may be the gateway before us, and not its client, that has compressed with an encoding.
	chosen := func(encoding string) bool { return t.fromGateway && encoding != t.original }
	if !readsOne && t.from != "" && chosen(t.from) && k.reads(t.from) == unknown {
		ask(t.from)
	}
	switch sent := cmp.Or(t.original, t.from); {
	case kept:
		to = t.from
	case byRule, sent == "", sent == pairEncoding:
	default:
		if reads := k.reads(sent); reads == yes || reads == unknown && !chosen(sent) {
			to = sent
		}
	}

	p.plan = planFor(t.from, to, rules)
	p.byRule, p.marked, p.force = byRule, t.original != "", t.force
	if p.marked && !byRule && to == t.original {
		id, _ := codec.ParseID(to)
		p.restore = &policy.MessageRule{Name: "as_sent", Setting: codec.Setting{Codec: id}}
	}
	if was := cmp.Or(t.original, t.from); (p.marked || !p.untouched()) && canOpen(was) && k.isGateway() {
		p.marks = was
	}
	if t.samples != nil || p.from == pairEncoding || p.to == pairEncoding {
		p.pair = t.pairing(policy.Request)
		if p.from == pairEncoding && t.peer != nil {
			p.pair.prev = t.peer
		}
		if p.to == pairEncoding {
			p.pair.next = k.partner
		}
	}
	return p
}

// toPartner returns the encoding that a rule wants, or a private one where the upstream is a gateway that takes it.
func toPartner(r *policy.MessageRule, k *knowledge) string {
	if r.HasDictionary() && k.partner.ready() {
		return pairEncoding
	}
	if k.laned {
		return toLanes(encodingOf(r.Setting))
	}
	return encodingOf(r.Setting)
}

// planReply plans the messages of a response whose encoding is from. has are the dictionaries that the request has
// listed, nil where it could list none.
func (t *terms) planReply(from string, has *fetched) plan {
	to := from // what can't be opened stays as it is
	if from == "" || canOpen(unlaned(from)) || has != nil && from == pairEncoding {
		if !t.clientReads(from) {
			to = ""
		}
		for _, r := range t.replies {
			if t.listed && r.HasDictionary() {
				to = pairEncoding
				break
			}
			if want := encodingOf(r.Setting); t.clientReads(want) {
				if to = want; t.lanes.ends != nil {
					to = toLanes(want)
				}
				break
			}
		}
	}
	p := planFor(from, to, t.replies)
	p.force = t.force
	if t.samples != nil || p.from == pairEncoding || p.to == pairEncoding {
		p.pair = t.pairing(policy.Reply)
		if p.from == pairEncoding && has != nil {
			p.pair.prev = has
		}
		if p.to == pairEncoding && t.listed {
			p.pair.next = t.held
		}
	}
	return p
}

func (t *terms) clientReads(encoding string) bool {
	return encoding == "" || slices.Contains(t.accepts, encoding)
}

// editRequestHeader edits a request's headers: the encoding of its messages, and what the upstream may
// answer with. Where no rule covers the call they stay as they are. It reports whether the
// upstream is told that we are a gateway, and so whether its answer says everything.
func (t *terms) editRequestHeader(h http.Header, p *plan, always bool) (told bool) {
	setEncoding(h, p)
	if t.fromGateway {
		delete(h, originalHeader)
	}
	if p.marks != "" {
		h[originalHeader] = []string{p.marks}
	}
	delete(h, heldHeader)
	asks := make([]string, 0, 8)
	for _, r := range t.replies {
		if name := encodingOf(r.Setting); name != "" && !t.clientReads(name) && !slices.Contains(asks, name) {
			asks = append(asks, name)
		}
	}
	if told = always || t.edits; !told {
		return false
	}
	list := splitList(h["Grpc-Accept-Encoding"])
	setList(h, append(slices.DeleteFunc(list, isPrivate), append(asks, gatewayToken)...))
	return true
}

// askPaired completes a request's headers where rules for replies have dictionaries, and returns what they
// list. The private encoding is named to no server that has not named it.
func (t *terms) askPaired(h http.Header, k *knowledge) *fetched {
	if k.carried || !k.partner.ready() || !slices.ContainsFunc(t.replies, (*policy.MessageRule).HasDictionary) {
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

// editResponseHeader edits a response's headers: the encoding of its messages, and to another gateway
// what it may send us, which is what we can open or the upstream can, and a dictionary that it has not got yet.
func (t *terms) editResponseHeader(h http.Header, p *plan) {
	setEncoding(h, p)
	if listed := h["Grpc-Accept-Encoding"]; t.fromGateway || len(listed) > 0 {
		t.tellReads(h, splitList(listed))
	}
	delete(h, offerHeader)
	delete(h, missingHeader)
	if p.pair != nil && p.pair.next != nil {
		t.offer(h, p)
	}
	if t.lanes.ends != nil {
		t.lanes.tell(h)
	}
}

// tellReads completes the upstream's list of what it reads, from which the client's is made.
func (t *terms) tellReads(h http.Header, list []string) {
	i := slices.Index(list, gatewayToken)
	if i >= 0 {
		list = list[:i]
	}
	if t.fromGateway {
		list = append(append(list, gatewayToken), ownNames...)
		if t.peer != nil {
			list = append(list, pairEncoding)
			if t.peer.links {
				list = append(list, linkToken)
			}
		}
	}
	if t.fromGateway || i >= 0 {
		setList(h, list)
	}
}

// offer names the first dictionary that the client has not got yet.
func (t *terms) offer(h http.Header, p *plan) {
	for _, r := range p.rules {
		d := t.dicts.forRule(r, p.pair)
		if d != nil && !p.pair.next.has(d) && wire.Nameable(d.Number()) && len(d.Content()) <= maxPairDict {
			h[offerHeader] = []string{hexHash(d.Hash())}
			return
		}
	}
}

// setEncoding writes grpc-encoding where it changes.
func setEncoding(h http.Header, p *plan) {
	switch {
	case p.from == p.to:
	case p.to == "":
		delete(h, "Grpc-Encoding")
	default:
		h["Grpc-Encoding"] = []string{p.to}
	}
}

// plan is what becomes of the messages of one direction of a call.
type plan struct {
	from, to string                // encodings; "" is none
	private  bool                  // from means nothing on another connection
	byRule   bool                  // a rule has chosen to
	rules    []*policy.MessageRule // that compress with to, or say raw; in order
	force    bool                  // they compress even at a loss

	marked  bool                // messages that the client had compressed are marked
	restore *policy.MessageRule // compresses those, and others stay plain; nil: rules decide
	marks   string              // we mark those that had this encoding; "": we don't

	pair *pairing // what is counted, and dictionaries; nil: neither

	in  *lanes.In  // opens messages of a call in lanes; nil: from is another encoding
	out *lanes.Out // seals them; nil: to is another encoding
}

// planFor keeps the rules that can be followed once the encoding is settled.
func planFor(from, to string, rules []*policy.MessageRule) plan {
	p := plan{from: from, to: to, private: from == pairEncoding || from == lanes.Encoding}
	if to == "" {
		return p
	}
	compresses := false
	for _, r := range rules {
		name := encodingOf(r.Setting)
		if name == "" || name == unlaned(to) || to == pairEncoding && r.Setting.Codec == codec.Zstd {
			p.rules = append(p.rules, r)
			compresses = compresses || name != ""
		}
	}
	if !compresses {
		p.rules = nil
	}
	return p
}

// untouched reports whether all messages go as they came.
func (p *plan) untouched() bool {
	return p.from == p.to && !p.private && len(p.rules) == 0 && !p.marked && p.marks == "" && p.pair == nil
}

// ruleFor returns the rule for a plain message, nil if it is to stay so.
func (p *plan) ruleFor(n int, marked bool) *policy.MessageRule {
	if p.restore != nil {
		if marked {
			return p.restore
		}
		return nil
	}
	if p.to == "" {
		return nil
	}
	for _, r := range p.rules {
		if r.Fits(n) {
			if r.Raw() {
				return nil
			}
			return r
		}
	}
	return nil
}

// canOpen reports whether compressed messages can be read.
func (p *plan) canOpen() bool {
	switch p.from {
	case pairEncoding:
		return p.pair != nil && p.pair.prev != nil
	case lanes.Encoding:
		return p.in != nil
	}
	return canOpen(p.from)
}

// pairing says which dictionaries one direction of a call may use. It does not change during the call.
type pairing struct {
	method    string
	direction policy.Direction
	next      holder             // which the receiver has; nil: none are used
	prev      cinch.Dictionaries // which the sender may name; nil: none
	watch     bool               // all messages are measured
	samples   *sampled.Samples   // of them, as they come; nil: there are none
}

func (t *terms) pairing(d policy.Direction) *pairing {
	return &pairing{method: t.path, direction: d, watch: t.samples != nil, samples: t.samples}
}

// holder tells which dictionaries a receiver has.
type holder interface{ has(d *codec.Dict) bool }

// identity is how headers name the lack of an encoding; here it is "".
const identity = "identity"

// ownNames are the encodings that we read and write.
var ownNames = grpccodec.Names()

// canOpen reports whether we can read messages of that encoding.
func canOpen(encoding string) bool { return slices.Contains(ownNames, encoding) }

// canonical turns the value of grpc-encoding into what we use.
func canonical(encoding string) string {
	if encoding == identity {
		return ""
	}
	return encoding
}

// splitList reads the values of grpc-accept-encoding.
func splitList(values []string) []string {
	var names []string
	for _, v := range values {
		for name := range strings.SplitSeq(v, ",") {
			if name = strings.TrimSpace(name); name != "" {
				names = append(names, name)
			}
		}
	}
	return names
}

// setList writes grpc-accept-encoding.
func setList(h http.Header, list []string) {
	if len(list) == 0 {
		delete(h, "Grpc-Accept-Encoding")
		return
	}
	h["Grpc-Accept-Encoding"] = []string{strings.Join(list, ",")}
}

// encodingOf returns the encoding's name of a setting, "" for raw.
func encodingOf(s codec.Setting) string {
	if s.Codec == codec.Raw {
		return ""
	}
	return s.Codec.String()
}

// isGRPC reports whether a body consists of gRPC's message frames. gRPC-Web's does not: it has trailers among them.
func isGRPC(h http.Header) bool {
	rest, ok := strings.CutPrefix(h.Get("Content-Type"), "application/grpc")
	return ok && (rest == "" || rest[0] == '+' || rest[0] == ';')
}
