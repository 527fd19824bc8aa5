package http

import (
	"context"
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

// rewrite makes the request that goes to the upstream. Its body is read through up to five layers, the outermost first:
//
//	withEnd                  completes the trailers at the end
//	streamBody or bytesBody  compresses what comes, or has it in memory (readCloser closes what bytesBody was made of)
//	clientBody               limits the client's time, and tells its errors from the upstream's
//	noopCloseReader          the reverse proxy's: reads fail once the exchange is over
//	trip.in.Body             net/http's or h2's
func (x *trip) rewrite(pr *httputil.ProxyRequest) {
	in, out := pr.In, pr.Out
	out.URL.Scheme, out.URL.Host = x.upstream.Scheme, x.upstream.Host
	out.URL.RawQuery, out.Host = in.URL.RawQuery, in.Host
	if x.cfg.OwnHost {
		out.Host = x.cfg.Upstream.Address
	}
	keepTarget(out, in.RequestURI)
	out.RequestURI = "" // package h2 would send it in place of out.URL
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
		if x.mayBeCarried(out) {
			x.carrier = x.carriers.take()
		}
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

// changeBody has the body go with history, or gives it another coding, where a rule wants that, or has it measured.
func (x *trip) changeBody(out *http.Request) {
	n := out.ContentLength
	rule := x.lookup(policy.Request, out.Header, n)
	if rule != nil && x.mayBeCarried(out) && x.carriers.ready() {
		x.carry(out, rule)
		return
	}
	ch, ok := x.chooseFor(out, rule, n)
	switch {
	case announces(x.in.Trailer):
	case ok && n < 0 && ch.from == "":
		if s := x.stream(out.Body, ch, x.held.Requests); s != nil {
			out.Body, x.sentCoding = s, ch.to
			out.Header["Content-Encoding"] = []string{ch.to}
		}
	case n > 0 && (ok || x.samples != nil && n <= int64(x.cfg.MaxCompress)):
		if !x.gatherRequest(out, ch.rule) {
			return
		}
		x.sample(out)
		if ok {
			x.sendRecoded(out, x.requestBody.received, ch)
		} else {
			x.setBody(out, x.requestBody.received)
		}
	}
}

// pathOf returns the host and path by which it is known what the upstream reads.
func pathOf(in *http.Request) string { return in.Host + in.URL.Path }

// sendRecoded sends what a choice makes of a body in memory, or the body.
func (x *trip) sendRecoded(out *http.Request, body []byte, ch recoding) {
	packed, reason := x.coder.recode(body, ch, &x.requestBody.grant)
	if packed == nil {
		x.countLeft(ch.rule, reason, int64(len(body)))
		x.setBody(out, body)
		return
	}
	x.originalBody, x.sentCoding = &original{body: body, encoding: out.Header["Content-Encoding"]}, ch.to
	x.setBody(out, packed)
	setCoding(out.Header, ch.to)
}

// sendOpened sends a body in memory that is as the client sent it, unless its rule wants another coding.
func (x *trip) sendOpened(out *http.Request, body []byte, rule *policy.MessageRule) {
	if ch, ok := x.chooseFor(out, rule, int64(len(body))); ok {
		x.sendRecoded(out, body, ch)
		return
	}
	x.setBody(out, body)
}

// chooseFor finds what its rule makes of the body of a request.
func (x *trip) chooseFor(out *http.Request, rule *policy.MessageRule, n int64) (recoding, bool) {
	return x.choose(rule, out.Header, n, x.knows.accepts(pathOf(x.in), n >= 0))
}

// gatherRequest reads the request's body into memory, as a rule wants it (nil: none does). Where it can't it reports false, and
// the body goes as it comes, or the request not at all.
func (x *trip) gatherRequest(out *http.Request, rule *policy.MessageRule) bool {
	if x.requestBody != nil && x.requestBody.collected {
		return true
	}
	b, n := x.holdRequest(out), out.ContentLength
	complete, err := b.read(int(n))
	switch {
	case err != nil:
		x.broken = err
	case !complete:
		x.countLeft(rule, leftBudget, n)
		out.Body = readCloser{b.give(b.received, out.Body, gateway.FromUpstream), out.Body}
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
		x.samples.Passed(name, len(x.requestBody.received))
	} else {
		x.samples.Saw(name, sampled.Message{Bytes: x.requestBody.received, Coding: from}, strings.Contains(out.Header.Get("Content-Type"), "protobuf"))
	}
}

// setBody sends bytes in memory, from the beginning again if a connection turns out to be dead.
func (x *trip) setBody(out *http.Request, b []byte) {
	open := func() (io.ReadCloser, error) { return x.requestBody.give(b, nil, gateway.FromUpstream), nil }
	out.Body, _ = open()
	out.GetBody = open
	if len(b) == 0 { // or it would be of unknown length
		out.Body, out.GetBody = http.NoBody, nil
	}
	out.ContentLength = int64(len(b))
	out.Header["Content-Length"] = []string{strconv.Itoa(len(b))}
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

// Complete reports whether all of the body is here; see h2. The reverse proxy has wrapped ReadCloser in what can't say so.
func (b *clientBody) Complete() bool {
	c, ok := b.trip.in.Body.(interface{ Complete() bool })
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

// collectBytes limits a message of unknown length that is read to its end first: exporters of telemetry send less.
const collectBytes = 4 << 20

// collect reads a body without a length into memory, if it is a message of Protocol Buffers, which its reader can't use before it
// is whole: OpenTelemetry's SDK for Node sends all of its own so. It reports true if it has all of it: then the body has a length, and
// may go over a connection with history. What is longer, or finds no memory, goes on as it comes.
func (x *trip) collect(out *http.Request) (body []byte, ok bool) {
	if out.ContentLength >= 0 || x.carriers == nil && x.samples == nil || len(x.in.Trailer) > 0 || !isMessage(out.Header) {
		return nil, false
	}
	b := x.holdRequest(out)
	complete, err := b.readToEnd(min(collectBytes, x.cfg.MaxCompress))
	switch {
	case err != nil:
		x.broken = err
	case !complete:
		out.Body = readCloser{b.give(b.received, out.Body, gateway.FromUpstream), out.Body}
	default:
		return b.received, true
	}
	return nil, false
}

// isMessage reports whether a body is one message of Protocol Buffers.
func isMessage(h http.Header) bool {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	return kind == "application/x-protobuf" || kind == "application/protobuf"
}

// resender sends requests to the upstream. What is answered with 415 (Unsupported Media Type) because of the coding that we
// gave it is sent once more as it came: the upstream has done nothing with it.
type resender struct{ transport http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (s resender) RoundTrip(out *http.Request) (*http.Response, error) {
	x := tripOf(out)
	switch {
	case x.broken != nil:
		return nil, x.broken
	case x.carrier != nil:
		return x.sendCarried(s, out)
	}
	resp, err := s.plain(x, out)
	if err != nil {
		return nil, err
	}
	path := pathOf(x.in)
	if said := resp.Header["Accept-Encoding"]; len(said) > 0 {
		x.knows.learn(path, accepted(resp.Header))
	}
	if x.sentCoding == "" || resp.StatusCode != http.StatusUnsupportedMediaType {
		if x.sentCoding != "" && resp.StatusCode < http.StatusMultipleChoices {
			x.knows.took(path, x.sentCoding)
		}
		return resp, nil
	}
	coding := x.sentCoding
	if x.originalBody != nil { // else the body is gone
		_, _ = io.CopyN(io.Discard, resp.Body, copyBytes)
		_ = resp.Body.Close()
		resp, err = s.plain(x, x.asItCame(out))
		if err != nil || resp.StatusCode == http.StatusUnsupportedMediaType {
			return resp, err // it was not for the coding
		}
	}
	x.cfg.Stats.Error("coding_refused")
	if x.knows.refuse(path, coding) {
		x.cfg.Log.Warn("the upstream refuses a content coding: requests to that path go without it for a minute", "coding", coding, "path", x.in.URL.Path)
	}
	return resp, nil
}

// plain sends a request over a connection without history, and finds out who answers it.
func (s resender) plain(x *trip, out *http.Request) (*http.Response, error) {
	resp, err := s.transport.RoundTrip(out)
	if errors.Is(err, context.Canceled) && out.Context().Err() == nil && mayComeTwice(out) {
		resp, err = s.transport.RoundTrip(out)
	}
	if err == nil && x.farSide != nil {
		x.farSide.saw(resp.Header.Get(pairHeader) == pairVersion)
		delete(resp.Header, pairHeader)
	}
	return resp, err
}

// mayComeTwice reports whether the upstream may get a request again. net/http gives a connection to the next request before it
// has told the last one of its reply; if that is cancelled at this moment the next one ends with its error.
func mayComeTwice(out *http.Request) bool {
	switch out.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return out.Body == nil || out.Body == http.NoBody
	}
	return false
}

// asItCame is the request with its body as the client sent it.
func (x *trip) asItCame(out *http.Request) *http.Request {
	again := out.Clone(out.Context())
	delete(again.Header, codingHeader)
	if x.originalBody == nil {
		return again // there is no body
	}
	if x.originalBody.encoding == nil {
		delete(again.Header, "Content-Encoding")
	} else {
		again.Header["Content-Encoding"] = x.originalBody.encoding
	}
	x.setBody(again, x.originalBody.body)
	if len(again.Trailer) > 0 {
		again.ContentLength = -1
	}
	x.originalBody, x.sentCoding = nil, ""
	return again
}
