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

	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/sampled"
	"github.com/cinch-layer/cinch/internal/policy"
)

// rewrite builds the request that goes to the upstream. Its body is read through up to five layers, the
// outermost first:
//
//	withEnd                  completes the trailers at the end
//	streamBody or bytesBody  compresses while reading, or reads from memory (readCloser closes bytesBody's source)
//	clientBody               limits the client's time, and marks its errors as the client's
//	noopCloseReader          the reverse proxy's: reads fail once the exchange has ended
//	exchange.in.Body         the body of net/http or http2
func (x *exchange) rewrite(pr *httputil.ProxyRequest) {
	in, out := pr.In, pr.Out
	out.URL.Scheme, out.URL.Host = x.upstream.Scheme, x.upstream.Host
	out.URL.RawQuery, out.Host = in.URL.RawQuery, in.Host
	if x.cfg.OwnHost {
		out.Host = x.cfg.Upstream.Address
	}
	keepTarget(out, in.RequestURI)
	out.RequestURI = "" // else package http2 would send it in place of out.URL
	for _, name := range forwarded {
		if values := in.Header[name]; len(values) > 0 {
			out.Header[name] = values
		}
	}
	if _, given := in.Header["User-Agent"]; !given {
		out.Header["User-Agent"] = nil // else the transport would write its own
	}
	if out.Body == nil && len(in.Trailer) > 0 {
		out.Body = in.Body // the body is empty: the reverse proxy has dropped it, and its trailers
	}
	if out.Body == nil || out.Body == http.NoBody {
		if x.fromNear.ends != nil && isPeerBody(out.Header) {
			x.broken = fmt.Errorf("%w: it is empty", errFromLink)
			return
		}
		x.takeLink(out)
		return
	}
	out.Body = &clientBody{ReadCloser: out.Body, exchange: x}
	if body, ok := x.collect(out); ok {
		out.TransferEncoding = nil
		x.setBody(out, body)
	}
	switch {
	case x.fromNear.ends != nil && isPeerBody(out.Header):
		x.decodeFromLink(out)
	case out.ContentLength == 0:
	default:
		x.changeBody(out)
	}
	x.keepTrailers(out)
}

// forwarded holds the fields that the reverse proxy removes.
var forwarded = [...]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"}

// keepTarget keeps the request's target as the client wrote it, if net/url would spell it otherwise.
func keepTarget(out *http.Request, target string) {
	if out.URL.RequestURI() == target || !strings.HasPrefix(target, "/") || strings.HasPrefix(target, "//") {
		return
	}
	out.URL.Opaque, _, _ = strings.Cut(target, "?")
}

// changeBody prepares the body for a link, or gives it another coding, if a rule asks for it, and samples it.
func (x *exchange) changeBody(out *http.Request) {
	n := out.ContentLength
	rule := x.lookup(policy.Request, out.Header, n)
	if rule != nil {
		if x.takeLink(out); x.toFar.conn != nil {
			x.linkBody(out, rule)
			return
		}
	}
	ch, ok := x.chooseFor(out, rule, n)
	switch {
	case announcesSignature(x.in.Trailer):
	case ok && n < 0 && ch.from == "":
		if s := x.stream(out.Body, ch, x.memory.Requests); s != nil {
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

// pathOf returns the host and path, the key by which acceptedCodings stores the codings that the upstream reads.
func pathOf(in *http.Request) string { return in.Host + in.URL.Path }

// sendRecoded sends a body in memory in another coding, or unchanged if that gains nothing.
func (x *exchange) sendRecoded(out *http.Request, body []byte, ch recoding) {
	packed, reason := x.coder.recode(body, ch, &x.requestBody.grant)
	if packed == nil {
		x.countLeft(ch.rule, reason, int64(len(body)))
		x.setBody(out, body)
		return
	}
	x.originalBody, x.sentCoding = &originalBody{body: body, encoding: out.Header["Content-Encoding"]}, ch.to
	x.setBody(out, packed)
	setCoding(out.Header, ch.to)
}

// sendOpened sends a body in memory, unchanged unless its rule asks for another coding.
func (x *exchange) sendOpened(out *http.Request, body []byte, rule *policy.MessageRule) {
	if ch, ok := x.chooseFor(out, rule, int64(len(body))); ok {
		x.sendRecoded(out, body, ch)
		return
	}
	x.setBody(out, body)
}

// chooseFor decides how a rule recodes the body of a request.
func (x *exchange) chooseFor(out *http.Request, rule *policy.MessageRule, n int64) (recoding, bool) {
	if rule == nil {
		return recoding{}, false
	}
	return x.choose(rule, out.Header, n, x.acceptedCodings.codingsFor(pathOf(x.in), n >= 0))
}

// gatherRequest reads the request's body into memory for a rule, or for none (nil). It reports false if it
// can't: without memory the body is passed on while it is read, and after a read error the request is not
// sent.
func (x *exchange) gatherRequest(out *http.Request, rule *policy.MessageRule) bool {
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
		out.Body = b.newReader(b.received, out.Body, memory.FromUpstream)
	}
	return complete && err == nil
}

// sample records the original body, which is in memory, for measurements.
func (x *exchange) sample(out *http.Request) {
	if x.samples == nil {
		return
	}
	name := sampled.Name{Method: x.in.Method + " " + x.in.URL.Path, Direction: policy.Request.String()}
	if from, known := codingOf(out.Header); !known || mustNotChange(out.Header) {
		x.samples.Count(name, len(x.requestBody.received))
	} else {
		isProtobuf := strings.Contains(out.Header.Get("Content-Type"), "protobuf")
		x.samples.Add(name, sampled.Message{Bytes: x.requestBody.received, Coding: from, Protobuf: isProtobuf})
	}
}

// setBody makes b the body of a request. It can be sent again from the beginning if a connection turns out to
// be dead.
func (x *exchange) setBody(out *http.Request, b []byte) {
	if earlier, ok := out.Body.(*bytesBody); ok {
		_ = earlier.Close()
	}
	open := func() (io.ReadCloser, error) { return x.requestBody.newReader(b, nil, memory.FromUpstream), nil }
	if len(b) == 0 { // else net/http would regard the length as unknown
		out.Body, out.GetBody = http.NoBody, nil
	} else {
		out.Body, _ = open()
		out.GetBody = open
	}
	out.ContentLength = int64(len(b))
	out.Header["Content-Length"] = []string{strconv.Itoa(len(b))}
}

// keepTrailers forwards the client's trailers behind the body, except fields that are not allowed there (RFC
// 9110, 6.5.1).
func (x *exchange) keepTrailers(out *http.Request) {
	in := x.in
	if len(in.Trailer) == 0 {
		return
	}
	out.Trailer = make(http.Header, len(in.Trailer))
	for name, values := range in.Trailer { // the values are known if the body is in memory
		if httpguts.ValidTrailerHeader(name) {
			out.Trailer[name] = values
		}
	}
	if len(out.Trailer) == 0 {
		return
	}
	out.ContentLength = -1  // trailers need chunks
	if out.GetBody != nil { // a body in memory may be sent again while its first sender still reads the trailers
		return
	}
	out.Body = &withEnd{ReadCloser: out.Body, end: func() {
		for name := range out.Trailer {
			out.Trailer[name] = in.Trailer[name]
		}
	}}
}

// clientBody records the end of a client's body, and distinguishes the client's errors from those of the
// upstream. A client that sends nothing for bodyTimeout, and has no reply yet, gets 408.
type clientBody struct {
	io.ReadCloser
	exchange *exchange
	limited  time.Time // when the read deadline was set last
}

func (b *clientBody) Read(p []byte) (int, error) {
	if now := time.Now(); now.Sub(b.limited) > bodyTimeout/4 {
		b.limited = now
		b.exchange.setBodyDeadline(now.Add(bodyTimeout + bodyTimeout/4))
	}
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == nil:
		return n, nil
	case err == io.EOF:
		b.exchange.ended.Store(true)
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("%w: %w", errBodySlow, err)
	default:
		err = fmt.Errorf("%w: %w", errRequest, err)
	}
	b.exchange.setBodyDeadline(time.Time{}) // HTTP/1's server continues to read, to detect that the client leaves
	return n, err
}

// Complete reports whether all of the body has arrived; see package http2. ReadCloser can't tell: it is wrapped by the
// reverse proxy.
func (b *clientBody) Complete() bool {
	if b.exchange.arrived {
		return true
	}
	c, ok := b.exchange.in.Body.(interface{ Complete() bool })
	return ok && c.Complete()
}

// withEnd calls end before it reports the end of a body.
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

// collectBytes limits the size of messages of unknown length that are read to their end before they are sent.
// Exporters of telemetry send less.
const collectBytes = 4 << 20

// collect reads a body without a length into memory, if it is a message of Protocol Buffers that may go over a link,
// or that is sampled. Its receiver can't use such a message before it is complete, and OpenTelemetry's SDK for Node
// sends all its messages without a length. collect reports true if it has the whole body. Then the body has a length,
// and may go in a lane. A body that is longer, or for which there is no memory, is passed on while it is read.
func (x *exchange) collect(out *http.Request) (body []byte, ok bool) {
	if out.ContentLength >= 0 || !x.mayTakeLink() && x.samples == nil || len(x.in.Trailer) > 0 || !isMessage(out.Header) || x.fromNear.ends != nil && isPeerBody(out.Header) {
		return nil, false
	}
	b := x.holdRequest(out)
	complete, err := b.readToEnd(min(collectBytes, x.cfg.MaxCompress))
	switch {
	case err != nil:
		x.broken = err
	case !complete:
		out.Body = b.newReader(b.received, out.Body, memory.FromUpstream)
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
