package http

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/sampled"
	"github.com/cinch-layer/cinch/internal/policy"
)

// rewrite makes the request that goes to the upstream.
func (x *trip) rewrite(pr *httputil.ProxyRequest) {
	in, out := pr.In, pr.Out
	out.URL.Scheme, out.URL.Host = x.upstream.Scheme, x.upstream.Host
	out.URL.RawQuery, out.Host = in.URL.RawQuery, in.Host
	if x.cfg.OwnHost {
		out.Host = x.cfg.Upstream.Address
	}
	keepTarget(out, in.RequestURI)
	for _, name := range forwarded {
		if values := in.Header[name]; len(values) > 0 {
			out.Header[name] = values
		}
	}
	if x.farSide != nil && out.Header.Get("Upgrade") == pairProtocol {
		out.Header["Connection"], out.Header["Upgrade"] = nil, nil // the far gateway knows us, and not our clients
	}
	if _, given := in.Header["User-Agent"]; !given {
		out.Header["User-Agent"] = nil // the transport would write its own
	}
	if out.Body == nil && len(in.Trailer) > 0 {
		out.Body = in.Body // of no bytes: the reverse proxy has dropped it, and with it the trailers
	}
	if out.Body == nil || out.Body == http.NoBody {
		x.carry(out)
		return
	}
	out.Body = &clientBody{ReadCloser: out.Body, trip: x}
	if body, ok := x.collect(out); ok {
		out.TransferEncoding = nil
		x.setBody(out, body)
	}
	switch {
	case out.ContentLength == 0:
	case x.carried != nil && out.Header.Get("Content-Encoding") == carriedCoding:
		x.uncarry(out)
	case x.carry(out):
	default:
		x.changeBody(out)
	}
	x.keepTrailers(out)
}

// forwarded are the fields that the reverse proxy takes for its own.
var forwarded = [...]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"}

// keepTarget has the request's target written as the client wrote it, where the library would spell it otherwise.
func keepTarget(out *http.Request, target string) {
	if out.URL.RequestURI() == target || !strings.HasPrefix(target, "/") || strings.HasPrefix(target, "//") {
		return
	}
	out.URL.Opaque, _, _ = strings.Cut(target, "?")
}

// changeBody gives the body another coding where a rule wants that.
func (x *trip) changeBody(out *http.Request) {
	ch, ok := x.chooseFor(out, out.ContentLength)
	switch {
	case announces(x.in.Trailer):
	case !ok && x.samples != nil && out.ContentLength > 0 && out.ContentLength <= int64(x.cfg.MaxCompress):
		x.sendSampled(out)
	case !ok:
	case out.ContentLength > 0:
		x.sendWhole(out, ch)
	case ch.from == "":
		x.sendStream(out, ch)
	}
}

// pathOf is what knowledge of the upstream is about.
func pathOf(in *http.Request) string { return in.Host + in.URL.Path }

// sendWhole reads a body of known length into memory, and sends what becomes of it.
func (x *trip) sendWhole(out *http.Request, ch recoding) {
	if !x.gatherRequest(out, ch.rule) {
		return
	}
	x.sample(out)
	x.sendRecoded(out, x.request.in, ch)
}

// sendRecoded sends what a choice makes of a body in memory, or the body.
func (x *trip) sendRecoded(out *http.Request, body []byte, ch recoding) {
	b := x.request
	var reason string
	if b.out, reason = x.coder.recode(body, ch, &b.grant); b.out == nil {
		x.leave(ch, reason, int64(len(body)))
		x.setBody(out, body)
		return
	}
	x.again, x.coding = &original{body: body, encoding: out.Header["Content-Encoding"]}, ch.to
	x.setBody(out, b.out)
	setCoding(out.Header, ch.to)
}

// sendOpened sends a body in memory that is as the client sent it, unless a rule of ours wants another coding.
func (x *trip) sendOpened(out *http.Request, body []byte) {
	if ch, ok := x.chooseFor(out, int64(len(body))); ok {
		x.sendRecoded(out, body, ch)
		return
	}
	x.setBody(out, body)
}

// chooseFor finds what is to be made of the body of a request.
func (x *trip) chooseFor(out *http.Request, n int64) (recoding, bool) {
	return x.choose(addressOf(x.in, policy.Request, out.Header), out.Header, n, x.knows.of(pathOf(x.in)))
}

// sendSampled reads a body into memory only to measure it.
func (x *trip) sendSampled(out *http.Request) {
	if x.gatherRequest(out, nil) {
		x.sample(out)
		x.setBody(out, x.request.in)
	}
}

// gatherRequest reads the request's body into memory, as a rule wants it (nil: none does). Where it can't it reports false, and
// the body goes as it comes, or the request not at all.
func (x *trip) gatherRequest(out *http.Request, rule *policy.MessageRule) bool {
	if x.request != nil && x.request.collected {
		return true
	}
	b, n := x.holdRequest(out), out.ContentLength
	complete, err := b.read(int(n))
	switch {
	case err != nil:
		x.broken = err
	case !complete:
		x.leave(recoding{rule: rule}, leftBudget, n)
		out.Body = readCloser{b.give(b.in, out.Body, gateway.FromUpstream), out.Body}
	}
	return complete && err == nil
}

// sample has a body that is in memory as it came measured.
func (x *trip) sample(out *http.Request) {
	if x.samples == nil {
		return
	}
	name := sampled.Name{Method: x.in.Method + " " + x.in.URL.Path, Direction: policy.Request.String()}
	if from, known := codingOf(out.Header); !known || mustStay(out.Header) {
		x.samples.Passed(name, len(x.request.in))
	} else {
		x.samples.Saw(name, sampled.Message{Bytes: x.request.in, Coding: from}, strings.Contains(out.Header.Get("Content-Type"), "protobuf"))
	}
}

// setBody sends bytes in memory, from the beginning again if a connection turns out to be dead.
func (x *trip) setBody(out *http.Request, b []byte) {
	open := func() (io.ReadCloser, error) { return x.request.give(b, nil, gateway.FromUpstream), nil }
	out.Body, _ = open()
	out.GetBody = open
	if len(b) == 0 { // or it would be of unknown length
		out.Body, out.GetBody = http.NoBody, nil
	}
	out.ContentLength = int64(len(b))
	out.Header["Content-Length"] = []string{strconv.Itoa(len(b))}
}

// sendStream compresses a body of unknown length as it comes.
func (x *trip) sendStream(out *http.Request, ch recoding) {
	if s := x.stream(out.Body, ch, x.held.Requests); s != nil {
		out.Body, x.coding = s, ch.to
		out.Header["Content-Encoding"] = []string{ch.to}
	}
}

// keepTrailers lets the client's trailers follow the body, but for those that are no trailers' business (RFC 9110, 6.5.1).
func (x *trip) keepTrailers(out *http.Request) {
	in := x.in
	out.Trailer = make(http.Header, len(in.Trailer))
	for name, values := range in.Trailer { // there are values if the body is in memory
		if httpguts.ValidTrailerHeader(name) {
			out.Trailer[name] = values
		}
	}
	if len(out.Trailer) == 0 {
		return
	}
	out.ContentLength = -1  // trailers need chunks
	if out.GetBody != nil { // the body is in memory: who sends it may still be at it when the trailers are read to send it again
		return
	}
	out.Body = &withEnd{ReadCloser: out.Body, end: func() {
		for name := range out.Trailer {
			out.Trailer[name] = in.Trailer[name]
		}
	}}
}

// clientBody notes the end of a client's body, and tells its errors from those of the upstream. A client that sends nothing
// for bodyTimeout, and has no reply yet, gets 408.
type clientBody struct {
	io.ReadCloser
	trip    *trip
	limited time.Time // when the read deadline was set last
}

func (b *clientBody) Read(p []byte) (int, error) {
	if now := time.Now(); now.Sub(b.limited) > bodyTimeout/4 {
		b.limited = now
		b.trip.limitBody(now.Add(bodyTimeout + bodyTimeout/4))
	}
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == nil:
		return n, nil
	case err == io.EOF:
		b.trip.ended.Store(true)
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("%w: %w", errBodySlow, err)
	default:
		err = fmt.Errorf("%w: %w", errRequest, err)
	}
	b.trip.limitBody(time.Time{}) // HTTP/1's server goes on reading, to see whether the client leaves
	return n, err
}

// Complete reports whether all of the body is here; see h2.
func (b *clientBody) Complete() bool {
	c, ok := b.ReadCloser.(interface{ Complete() bool })
	return ok && c.Complete()
}

// withEnd calls end before it tells of the end of a body.
type withEnd struct {
	io.ReadCloser
	end func()
}

func (b *withEnd) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.end()
	}
	return n, err
}
