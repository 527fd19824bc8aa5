package http

import (
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/http2"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/peer/lanes"
	"github.com/cinch-layer/cinch/internal/gateway/peer/link"
	"github.com/cinch-layer/cinch/internal/gateway/sampled"
	"github.com/cinch-layer/cinch/internal/policy"
)

// common holds the state that all exchanges of a gateway share.
type common struct {
	cfg             *Config
	policy          *atomic.Pointer[policy.Messages]
	coder           coder
	acceptedCodings *acceptedCodings
	transport       *transport
	upstream        url.URL // scheme and host
	proxy           *httputil.ReverseProxy
	errorLog        *log.Logger   // for net/http
	ahead           chan struct{} // see memory.Grant

	samples  *sampled.Samples // nil: nothing is measured
	endpoint *link.Endpoint   // of links with other gateways; nil: there are none
	lanes    *lanes.Shared    // of these links
	far      *farGateway      // the upstream as a gateway; nil: without Link
	links    *links           // shared by all clients; nil: each client has its own, or there are none
}

func newCommon(c *Config, p *atomic.Pointer[policy.Messages]) common {
	e := common{cfg: c, policy: p, coder: coder{c}, acceptedCodings: newAcceptedCodings(c.UpstreamReads), transport: newTransport(c), ahead: make(chan struct{}, 1)}
	e.errorLog = slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug) // errors of clients and upstreams
	if c.Sample {
		e.samples = &sampled.Samples{}
	}
	if c.Links != nil {
		o := *c.Links
		o.Name, o.Extensions, o.Engine, o.Stats, o.Log = c.Name, lanes.Extensions(), c.Engine, c.Stats, c.Log
		e.endpoint, e.lanes = link.NewEndpoint(o), lanes.NewShared()
	}
	if c.Link != NoHistory {
		e.far = newFarGateway(c, e.endpoint, e.lanes)
	}
	if c.Link == Shared {
		e.links = newLinks(e.far, "")
	}
	e.upstream = url.URL{Scheme: "http", Host: c.Upstream.Address}
	if c.Upstream.TLS != nil {
		e.upstream.Scheme = "https"
	}
	if c.Upstream.Network == "unix" {
		e.upstream.Host = "localhost" // the name is never resolved
	}
	e.proxy = &httputil.ReverseProxy{
		Rewrite:        func(pr *httputil.ProxyRequest) { exchangeOf(pr.In).rewrite(pr) },
		Transport:      resender{e.transport},
		ModifyResponse: func(r *http.Response) error { exchangeOf(r.Request).reply(r); return nil },
		ErrorHandler:   func(w http.ResponseWriter, r *http.Request, err error) { exchangeOf(r).fail(w, err) },
		BufferPool:     buffers{},
		ErrorLog:       e.errorLog,
	}
	return e
}

// exchange is one request and its reply.
type exchange struct {
	*common
	rules  *policy.Messages   // rules when the exchange began; nil: there are none yet
	memory *memory.ConnMemory // the client's
	payer  net.Addr           // the client's address, by which limits are shared
	client *http2.Client      // the client, for upstreams of HTTP/2; nil: the upstream has no HTTP/2
	in     *http.Request

	control *http.ResponseController // controls the client's request
	cutMu   sync.Mutex
	closed  bool // control must not be used any more
	limited bool // a time limit is set for the body
	noLimit bool // no more time limits are set for the body
	cancel  context.CancelCauseFunc

	arrived                bool          // the client's body came with its header; see lengthCounter
	ended                  atomic.Bool   // the client's body has been read to its end
	requestBody, replyBody *wholeBody    // nil: not in memory
	openedReply            *wholeBody    // the body that replyBody was made from, if it is changed once more
	sentCoding             string        // coding that the gateway gave the request's body; "": none
	originalBody           *originalBody // the body as the client sent it, if it is in memory and was recoded
	broken                 error         // rewrite failed; RoundTrip returns this error, and sends nothing

	links      *links        // to the far gateway; nil: there are none
	linkClient *http2.Client // the client, for links
	toFar      farHop
	fromNear   nearHop

	window   *memory.Account // pays for the reply's receive window beyond upstreamWindow; nil: nothing yet
	accounts []*memory.Account

	slot  *gateway.ConnSlot // its place among the requests of HTTP/2 clients over HTTP/1.1; nil: none
	began time.Time
}

type exchangeKey struct{}

func exchangeOf(r *http.Request) *exchange { return r.Context().Value(exchangeKey{}).(*exchange) }

// close releases what the exchange holds.
func (x *exchange) close() {
	x.releaseLink()
	x.cutMu.Lock()
	x.closed = true
	x.cutMu.Unlock()
	for _, b := range []*wholeBody{x.requestBody, x.replyBody, x.openedReply} {
		if b != nil {
			b.close()
		}
	}
	for _, a := range x.accounts {
		a.Close()
	}
	if x.slot != nil {
		x.slot.Leave()
	}
	if x.fromNear.ends != nil {
		x.fromNear.out.Sent(false) // no effect if ServeHTTP has reported that all was sent
	}
}

// bodyEnded reports whether the request's body has been read to its end.
func (x *exchange) bodyEnded() bool { return x.in.Body == http.NoBody || x.ended.Load() }

// errBodySlow reports a client that has stopped sending its request's body.
var errBodySlow = errors.New("the rest of the request's body did not arrive in time")

// setBodyDeadline sets the time when reading the request's body fails; the zero time: never. Calls of gRPC
// have no such limit: a client may have nothing to send for a long time.
func (x *exchange) setBodyDeadline(at time.Time) {
	x.cutMu.Lock()
	defer x.cutMu.Unlock()
	x.setBodyDeadlineLocked(at)
}

func (x *exchange) setBodyDeadlineLocked(at time.Time) {
	if at.IsZero() && !x.limited {
		return
	}
	if !x.closed && !x.noLimit && !strings.HasPrefix(x.in.Header.Get("Content-Type"), "application/grpc") {
		x.limited = !at.IsZero()
		_ = x.control.SetReadDeadline(at)
	}
}

// clearBodyDeadline removes the time limit of the body when the reply begins: from then on client and
// upstream may exchange data for any time.
func (x *exchange) clearBodyDeadline() {
	x.cutMu.Lock()
	defer x.cutMu.Unlock()
	x.setBodyDeadlineLocked(time.Time{})
	x.noLimit = true
}

// errRequest is returned when reading a client's body fails.
var errRequest = errors.New("the body of the request could not be read")

// holdRequest sets and returns requestBody, into which the request's body can be read. holdReply does the
// same for replyBody and the reply's body.
func (x *exchange) holdRequest(out *http.Request) *wholeBody {
	if x.requestBody != nil {
		x.requestBody.close()
	}
	x.requestBody = newWholeBody(x.in.Context(), out.Body, memory.FromClient, x.memory.Requests, x.ahead, x.cut)
	return x.requestBody
}

func (x *exchange) holdReply(resp *http.Response) *wholeBody {
	if x.replyBody != nil { // the body of a far gateway, which was decompressed
		x.openedReply, x.replyBody = x.replyBody, nil
	}
	x.replyBody = newWholeBody(x.in.Context(), resp.Body, memory.FromUpstream, x.memory.Replies, x.ahead, x.cut)
	return x.replyBody
}

// stream returns a body that compresses src, of unknown length, while it is read. An account of the client
// pays for its memory. It returns nil if there is no memory, or the gateway's budgets leave no time for it. The
// body keeps the setting that they allow when it begins.
func (x *exchange) stream(src io.ReadCloser, ch recoding, of *memory.Client) *streamBody {
	if ch.setting = x.cfg.Effort.LowerWithin(ch.setting); ch.setting.Codec == codec.Raw {
		x.countLeft(ch.rule, steppedDown, 0)
		return nil
	}
	account := &memory.Account{}
	account.Open(of, nil)
	x.accounts = append(x.accounts, account)
	s := newStream(x.cfg, src, ch, account)
	if s == nil {
		x.countLeft(ch.rule, leftBudget, 0)
	}
	return s
}

// widen takes memory for n more bytes that an HTTP/2 upstream may be ahead of the client in the reply's body, and
// reports whether it did. Windows leave half of the budget to bodies in memory.
func (x *exchange) widen(n int64) bool {
	use := x.cfg.Replies.Use()
	if 2*n > maxUpstreamWindow || use.Size > 0 && use.InUse+n > use.Size/2 {
		return false
	}
	if x.window == nil {
		x.window = &memory.Account{}
		x.window.Open(x.memory.Replies, nil)
		x.accounts = append(x.accounts, x.window)
	}
	return x.window.TakeSpare(n)
}

// cutGrace limits the time that an exchange that is cut off has to send its client an error.
const cutGrace = time.Second

var errSlow = errors.New("the exchange stalled while others waited for the memory that its body holds")

// cut ends an exchange that has stalled.
func (x *exchange) cut(v memory.StallReason) {
	defer gateway.CatchPanic(x.cfg.Log, x.cfg.Stats, nil)
	if x.end(errSlow) {
		gateway.LogCut(x.cfg.Log, x.cfg.Stats, x.memory.Addr, v)
	}
}

var errDisplaced = errors.New("a client at another address needed the request's connection to the upstream (max_connections)")

// Stage implements gateway.LimitedConn.
func (x *exchange) Stage() gateway.ConnStage { return gateway.StageServed }

// LastActive implements gateway.LimitedConn: of an address, the request that has taken longest is displaced.
func (x *exchange) LastActive() time.Time { return x.began }

// Displace implements gateway.LimitedConn.
func (x *exchange) Displace() {
	if x.end(errDisplaced) {
		x.cfg.Stats.Error("displaced")
		x.cfg.Log.Warn("a request was ended to make room for another address: the requests of HTTP/2 clients have reached max_connections, and this address has the most",
			"client", x.memory.Addr, "max_connections", x.cfg.MaxConns)
	}
}

// end ends the exchange, and reports false if it has ended before. It stops reading from the client at once, and
// writing to it after cutGrace.
func (x *exchange) end(why error) bool {
	x.cutMu.Lock()
	defer x.cutMu.Unlock()
	if x.closed {
		return false
	}
	x.noLimit = true // the deadline below is the last one
	x.cancel(why)
	_ = x.control.SetReadDeadline(time.Now())
	_ = x.control.SetWriteDeadline(time.Now().Add(cutGrace))
	return true
}

// fail sends the client an error in place of a reply.
func (x *exchange) fail(w http.ResponseWriter, err error) {
	cause := context.Cause(x.in.Context())
	slow, displaced := cause == errSlow, cause == errDisplaced
	if x.in.Context().Err() != nil && !slow && !displaced {
		// The client has gone. One that has only closed its side must not mistake an empty reply for a
		// complete one.
		panic(http.ErrAbortHandler)
	}
	status, class := http.StatusBadGateway, "upstream_reply"
	var refused *net.OpError
	switch {
	case slow:
		status, class, err = http.StatusRequestTimeout, "", errSlow // counted by cut
		if x.in.ProtoMajor == 1 {
			w.Header().Set("Connection", "close")
		}
	case displaced:
		status, class, err = http.StatusServiceUnavailable, "", errDisplaced // counted by Displace
	case errors.Is(err, errTooMany):
		status, class = http.StatusServiceUnavailable, "connections"
	case errors.Is(err, errBodySlow):
		status, class = http.StatusRequestTimeout, "request"
		if x.in.ProtoMajor == 1 {
			w.Header().Set("Connection", "close")
		}
	case errors.Is(err, errRequest):
		status, class = http.StatusBadRequest, "request"
	case errors.Is(err, http2.ErrHeaderSize):
		status, class = http.StatusRequestHeaderFieldsTooLarge, "request"
	case errors.Is(err, errFromLink):
		class = "corrupt"
		if errors.Is(err, grpccodec.ErrTooLarge) || errors.Is(err, lanes.ErrTooLarge) {
			status, class = http.StatusRequestEntityTooLarge, "too_large"
		}
	case errors.Is(err, endpoint.ErrUnreachable), errors.As(err, &refused) && refused.Op == "dial":
		class = "" // counted by the dialer
	}
	if class != "" {
		x.cfg.Stats.Error(class)
		x.cfg.Log.Debug("exchange failed", "client", x.memory.Addr, "path", x.in.URL.Path, "err", err)
	}
	http.Error(w, "cinch: "+err.Error(), status)
}
