package http

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
)

// reply gives the body of a reply a coding that the client accepts, where a rule wants that.
func (x *trip) reply(resp *http.Response) {
	if x.carried != nil {
		x.carryReply(resp)
		return
	}
	if replyMustStay(x.in, resp) || announces(resp.Trailer) || resp.ContentLength == 0 {
		return
	}
	a := addressOf(x.in, policy.Reply, resp.Header)
	ch, ok := x.choose(a, resp.Header, resp.ContentLength, accepted(x.in.Header))
	switch {
	case !ok:
	case resp.ContentLength > 0:
		x.replyWhole(resp, ch)
	default:
		x.replyStream(resp, ch)
	}
}

// replyWhole reads a body of known length into memory. One that ends early does so for the client too.
func (x *trip) replyWhole(resp *http.Response, ch recoding) {
	n := int(resp.ContentLength)
	b := x.holdReply(resp)
	complete, err := b.read(n)
	if err != nil {
		resp.Body = readCloser{failing{err}, resp.Body}
		return
	}
	if !complete {
		x.leave(ch, leftBudget, int64(n))
		resp.Body = readCloser{b.give(b.in, resp.Body, gateway.FromClient), resp.Body}
		return
	}
	out, reason := x.coder.recode(b.in, ch, &b.grant)
	if b.out = out; out == nil {
		x.leave(ch, reason, int64(n))
		resp.Body = readCloser{b.give(b.in, nil, gateway.FromClient), resp.Body}
		return
	}
	resp.Body = readCloser{b.give(out, nil, gateway.FromClient), resp.Body}
	resp.ContentLength = int64(len(out))
	resp.Header["Content-Length"] = []string{strconv.Itoa(len(out))}
	encoded(resp.Header, ch.to)
}

// replyStream compresses a body of unknown length as it comes.
func (x *trip) replyStream(resp *http.Response, ch recoding) {
	account := &gateway.Account{}
	account.Open(x.held.Replies, nil)
	x.accounts = append(x.accounts, account)
	s := newStream(x.cfg, resp.Body, ch, account)
	if s == nil {
		x.leave(ch, leftBudget, 0)
		return
	}
	resp.Body = s
	encoded(resp.Header, ch.to)
}

// encoded says in a reply's header what its body has become.
func encoded(h http.Header, coding string) {
	h["Content-Encoding"] = []string{coding}
	delete(h, "Accept-Ranges") // of the body as it was
	varies := func(field string) bool {
		return field == "*" || strings.Contains(strings.ToLower(field), "accept-encoding")
	}
	if !slices.ContainsFunc(h["Vary"], varies) {
		h["Vary"] = append(h["Vary"], "Accept-Encoding")
	}
}
