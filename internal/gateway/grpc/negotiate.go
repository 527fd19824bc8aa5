package grpc

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/internal/gateway/peer/lanes"
	"github.com/cinch-layer/cinch/internal/gateway/sampled"
	"github.com/cinch-layer/cinch/internal/policy"
)

// terms holds what a call's headers and the policy determine about its encodings. It does not change during
// the call.
type terms struct {
	*acceptEncoding
	path     string
	from     string   // encoding of the client's messages
	accepts  []string // encodings that the client accepts
	isLink   bool     // the client's connection is a link
	original string   // encoding of the client's own client, if the client marks messages
	requests []*policy.MessageRule
	replies  []*policy.MessageRule
	force    bool // the rules compress even at a loss
	edits    bool // the headers of a request may change even if its messages do not

	acceptsLinks bool             // clients that are gateways may open links
	samples      *sampled.Samples // samples of all messages; nil: they are not measured
	lanes        laneTerms        // for the client's link
}

// noTerms are the terms of a request that is not a gRPC call.
var noTerms = &terms{acceptEncoding: noEncodings}

// acceptEncoding is a parsed grpc-accept-encoding of a client. It is immutable.
type acceptEncoding struct {
	text        string
	names       []string // encodings that are not private to gateways
	fromGateway bool     // the client is a gateway
}

// noEncodings is the value for a client that lists no encodings.
var noEncodings = &acceptEncoding{}

// maxRememberedList limits the bytes of a list that is remembered.
const maxRememberedList = 512

// parseAcceptEncoding parses grpc-accept-encoding, or returns the connection's last result if the value is
// the same.
func parseAcceptEncoding(values []string, last *atomic.Pointer[acceptEncoding]) *acceptEncoding {
	if len(values) == 0 {
		return noEncodings
	}
	one := len(values) == 1 && len(values[0]) <= maxRememberedList
	if a := last.Load(); one && a != nil && a.text == values[0] {
		return a
	}
	a := &acceptEncoding{}
	for _, name := range splitList(values) {
		if name == gatewayToken {
			a.fromGateway = true
		} else if name != identity && name != lanes.Encoding { // lanes are negotiated with the link, not here
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

// negotiate reads a request's headers, and sets t for the call, with its rules. It reports false if the client uses an
// encoding that is reserved to links with lanes.
func (h *handler) negotiate(r *http.Request, t *terms) (ok bool) {
	*t = terms{
		acceptEncoding: parseAcceptEncoding(r.Header["Grpc-Accept-Encoding"], &h.lastAccept), from: canonical(r.Header["Grpc-Encoding"]),
		path: r.URL.Path, isLink: h.isLink, acceptsLinks: h.acceptsLinks, samples: h.samples,
	}
	t.accepts = t.names
	if t.from != "" { // servers answer in the encoding of the request
		if from := unlaned(t.from); !slices.Contains(t.accepts, from) {
			t.accepts = append(t.accepts, from)
		}
	}
	if t.fromGateway {
		if was := r.Header.Get(originalHeader); canOpen(was) {
			t.original = was
		}
	}
	rules := h.policy.Load()
	service, method, _ := strings.Cut(strings.TrimPrefix(r.RequestURI, "/"), "/")
	a := policy.MessageAddress{Space: []byte(service), Command: []byte(method), Direction: policy.Request}
	t.requests = rules.Covering(nil, a)
	a.Direction = policy.Reply
	t.replies = rules.Covering(nil, a)
	t.force = rules != nil && rules.Force
	if h.isLink {
		t.replies = overLink(t.replies)
	}
	t.edits = t.fromGateway || len(t.requests) > 0 || len(t.replies) > 0
	if t.from == lanes.Encoding && h.ends == nil {
		return false
	}
	if h.ends != nil {
		t.lanes.meet(r.Header, h.ends)
	}
	return true
}

// requestPlan is the result of planRequest.
type requestPlan struct {
	plan
	undecided []string // encodings to use if the server is found to read them
	// unread is the encoding of the first rule if the server reads no rule's encoding, and "" if it reads or may
	// read one.
	unread string
}

// planRequest plans the client's messages for a server with capabilities k. It uses only encodings that the server is
// known to read or that the client has chosen.
func (t *terms) planRequest(k *serverCapabilities) (p requestPlan) {
	rules := t.requests
	if k.isLink {
		rules = overLink(rules)
	}
	ask := func(name string) {
		if canOpen(name) && !slices.Contains(p.undecided, name) {
			p.undecided = append(p.undecided, name)
		}
	}
	to, byRule, readsOne, readsNone := "", false, false, true
	// Messages that can't be decompressed stay unchanged.
	kept := t.from != "" && !canOpen(t.from)
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
				to, byRule = encodingFor(r, k), true
			} else if want == t.from && !t.fromGateway {
				to, byRule = want, true
			}
		}
		if readsOne = reads == yes; readsOne {
			break // later rules do not matter
		}
		ask(want)
	}
	if !readsNone {
		p.unread = ""
	}
	// chosen reports whether an encoding may have been chosen by the gateway before this one, rather than by that
	// gateway's client.
	chosen := func(encoding string) bool { return t.fromGateway && encoding != t.original }
	if !readsOne && t.from != "" && chosen(t.from) && k.reads(t.from) == unknown {
		ask(t.from)
	}
	switch sent := cmp.Or(t.original, t.from); {
	case kept:
		to = t.from
	case byRule, sent == "":
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
	if was := cmp.Or(t.original, t.from); (p.marked || !p.isUnchanged()) && canOpen(was) && k.isGateway() {
		p.marks = was
	}
	p.measured = t.measuring(policy.Request)
	return p
}

// encodingFor returns a rule's encoding. On a connection with lanes, lanes take the place of cinch-proto.
func encodingFor(r *policy.MessageRule, k *serverCapabilities) string {
	if k.laned {
		return toLanes(encodingOf(r.Setting))
	}
	return encodingOf(r.Setting)
}

// planReply plans the messages of a response in the encoding from.
func (t *terms) planReply(from string) plan {
	to := from // what can't be decompressed stays unchanged
	if from == "" || canOpen(unlaned(from)) {
		if !t.clientReads(from) {
			to = ""
		}
		for _, r := range t.replies {
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
	p.measured = t.measuring(policy.Reply)
	return p
}

func (t *terms) clientReads(encoding string) bool {
	return encoding == "" || slices.Contains(t.accepts, encoding)
}

// editRequestHeader edits a request's headers: the encoding of its messages, and the encodings that the upstream may
// answer in. It leaves grpc-accept-encoding unchanged unless a rule covers the call, the client is a gateway or always
// is set. It reports whether it adds gatewayToken, so that the response, even from a gateway, lists all encodings that
// the upstream reads.
func (t *terms) editRequestHeader(h http.Header, p *plan, always bool) (told bool) {
	setEncoding(h, p)
	if t.fromGateway {
		delete(h, originalHeader)
	}
	if p.marks != "" {
		h[originalHeader] = []string{p.marks}
	}
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

// editResponseHeader edits a response's headers: the encoding of its messages and, for another gateway, the encodings
// that it may send: those that this gateway or the upstream reads.
func (t *terms) editResponseHeader(h http.Header, p *plan) {
	setEncoding(h, p)
	if listed := h["Grpc-Accept-Encoding"]; t.fromGateway || len(listed) > 0 {
		t.editAcceptEncoding(h, splitList(listed))
	}
	if t.lanes.ends != nil {
		t.lanes.tell(h)
	}
}

// editAcceptEncoding turns the upstream's list of encodings into the one for the client.
func (t *terms) editAcceptEncoding(h http.Header, list []string) {
	i := slices.Index(list, gatewayToken)
	if i >= 0 {
		list = list[:i]
	}
	if t.fromGateway {
		list = append(append(list, gatewayToken), ownNames...)
		if t.acceptsLinks {
			list = append(list, linkToken)
		}
	}
	if t.fromGateway || i >= 0 {
		setList(h, list)
	}
}

// setEncoding sets grpc-encoding if it changes.
func setEncoding(h http.Header, p *plan) {
	switch {
	case p.from == p.to:
	case p.to == "":
		delete(h, "Grpc-Encoding")
	default:
		h["Grpc-Encoding"] = []string{p.to}
	}
}

// plan says what to do with the messages of one direction of a call.
type plan struct {
	from, to string                // encodings; "": none
	byRule   bool                  // a rule chose to
	rules    []*policy.MessageRule // rules for messages in encoding to, and raw rules, in order
	force    bool                  // the rules compress even at a loss

	marked  bool                // messages that the client's own client compressed are marked
	restore *policy.MessageRule // compresses marked messages, and others stay plain; nil: rules decide
	marks   string              // mark messages that had this encoding; "": none

	measured *measuring // nil: messages are not measured

	in  *lanes.In  // decompresses messages of a call in lanes; nil: from is another encoding
	out *lanes.Out // compresses messages in lanes; nil: to is another encoding
}

// planFor returns a plan with the rules that apply to the chosen encoding.
func planFor(from, to string, rules []*policy.MessageRule) plan {
	p := plan{from: from, to: to}
	if to == "" {
		return p
	}
	compresses := false
	for _, r := range rules {
		name := encodingOf(r.Setting)
		if name == "" || name == unlaned(to) {
			p.rules = append(p.rules, r)
			compresses = compresses || name != ""
		}
	}
	if !compresses {
		p.rules = nil
	}
	return p
}

// isUnchanged reports whether all messages pass unchanged.
func (p *plan) isUnchanged() bool {
	return p.from == p.to && p.from != lanes.Encoding && len(p.rules) == 0 && !p.marked && p.marks == "" && p.measured == nil
}

// ruleFor returns the rule for a plain message, or nil if it is to stay plain.
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

// canOpen reports whether compressed messages can be decompressed.
func (p *plan) canOpen() bool {
	if p.from == lanes.Encoding {
		return p.in != nil
	}
	return canOpen(p.from)
}

// measuring identifies the messages of one direction of a call in measurements.
type measuring struct {
	method    string
	direction policy.Direction
	samples   *sampled.Samples
}

// measuring returns nil if messages are not measured.
func (t *terms) measuring(d policy.Direction) *measuring {
	if t.samples == nil {
		return nil
	}
	return &measuring{method: t.path, direction: d, samples: t.samples}
}

// identity is the header value for no encoding, which this package represents as "".
const identity = "identity"

// ownNames lists the encodings that the gateway reads and writes.
var ownNames = grpccodec.Names()

// canOpen reports whether the gateway can decompress an encoding.
func canOpen(encoding string) bool { return slices.Contains(ownNames, encoding) }

// canonical converts the values of grpc-encoding to this package's form.
func canonical(values []string) string {
	if len(values) == 0 || values[0] == identity {
		return ""
	}
	return values[0]
}

// splitList parses the values of grpc-accept-encoding.
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

// setList sets grpc-accept-encoding, or deletes it if list is empty.
func setList(h http.Header, list []string) {
	if len(list) == 0 {
		delete(h, "Grpc-Accept-Encoding")
		return
	}
	h["Grpc-Accept-Encoding"] = []string{strings.Join(list, ",")}
}

// encodingOf returns the name of a setting's encoding, or "" for raw.
func encodingOf(s codec.Setting) string {
	if s.Codec == codec.Raw {
		return ""
	}
	return s.Codec.String()
}

// isGRPC reports whether a body consists of gRPC message frames. gRPC-Web is not included: it has trailers
// among the frames.
func isGRPC(h http.Header) bool {
	types := h["Content-Type"]
	if len(types) == 0 {
		return false
	}
	rest, ok := strings.CutPrefix(types[0], "application/grpc")
	return ok && (rest == "" || rest[0] == '+' || rest[0] == ';')
}
