package http

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy"
)

// reply gives the body of a reply a coding that the client accepts, if a rule asks for it.
func (x *exchange) reply(resp *http.Response) {
	x.clearBodyDeadline()
	if x.requestBody != nil { // it is not sent again
		x.requestBody.closeWhenRead()
	}
	if x.fromNear.ends != nil {
		x.linkReply(resp)
		return
	}
	if replyMustNotChange(x.in, resp) || announcesSignature(resp.Trailer) || resp.ContentLength == 0 {
		return
	}
	rule := x.lookup(policy.Reply, resp.Header, resp.ContentLength)
	ch, ok := x.choose(rule, resp.Header, resp.ContentLength, accepted(x.in.Header))
	if !ok {
		return
	}
	if resp.ContentLength < 0 {
		if s := x.stream(resp.Body, ch, x.memory.Replies); s != nil {
			resp.Body = s
			setReplyCoding(resp.Header, ch.to)
		}
		return
	}
	if !x.gatherReply(resp, rule) { // a body that ends early ends early for the client too
		return
	}
	b := x.replyBody
	out, reason := x.coder.recode(b.received, ch, &b.grant)
	if out == nil {
		x.countLeft(rule, reason, int64(len(b.received)))
		x.setReply(resp, b.received)
		return
	}
	x.setReply(resp, out)
	setReplyCoding(resp.Header, ch.to)
}

// gatherReply reads a reply's body into memory for a rule. It reports false if it can't: without memory the
// body is passed on while it is read, and a read error is passed to the reader of the body.
func (x *exchange) gatherReply(resp *http.Response, rule *policy.MessageRule) bool {
	b, n := x.holdReply(resp), resp.ContentLength
	complete, err := b.read(int(n))
	switch {
	case err != nil:
		resp.Body = readCloser{errorReader{err}, resp.Body}
	case !complete:
		x.countLeft(rule, leftBudget, n)
		resp.Body = b.newReader(b.received, resp.Body, memory.FromClient)
	}
	return complete && err == nil
}

// setReply makes b the body of a reply.
func (x *exchange) setReply(resp *http.Response, b []byte) {
	resp.Body = readCloser{x.replyBody.newReader(b, nil, memory.FromClient), resp.Body}
	resp.ContentLength = int64(len(b))
	resp.Header["Content-Length"] = []string{strconv.Itoa(len(b))}
}

// setReplyCoding updates the header of a reply whose body got a coding.
func setReplyCoding(h http.Header, coding string) {
	h["Content-Encoding"] = []string{coding}
	delete(h, "Accept-Ranges") // it was about ranges of the original body
	varies := func(field string) bool {
		return field == "*" || strings.Contains(strings.ToLower(field), "accept-encoding")
	}
	if !slices.ContainsFunc(h["Vary"], varies) {
		h["Vary"] = append(h["Vary"], "Accept-Encoding")
	}
}
