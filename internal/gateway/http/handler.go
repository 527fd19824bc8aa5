package http

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync/atomic"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/sampled"
	"github.com/cinch-layer/cinch/internal/panics"
	"github.com/cinch-layer/cinch/internal/policy"
)

func newCommon(c *Config, p *atomic.Pointer[policy.Messages]) common {
	e := common{cfg: c, policy: p, coder: coder{c}, knows: newKnowledge(c.UpstreamReads), transport: newTransport(c), ahead: make(chan struct{}, 1)}
	e.errorLog = slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug) // what clients and upstreams do wrong
	if c.Sample {
		e.samples = &sampled.Samples{}
	}
	if c.Peers || c.Link != NoHistory {
		e.histories = newHistories(c)
	}
	if c.Link != NoHistory {
		e.farSide = newFarSide(c, e.histories)
	}
	if c.Link == Shared {
		e.carriers = newCarriers(e.farSide)
	}
	e.upstream = url.URL{Scheme: "http", Host: c.Upstream.Address}
	if c.Upstream.TLS != nil {
		e.upstream.Scheme = "https"
	}
	if c.Upstream.Network == "unix" {
		e.upstream.Host = "localhost" // a name that nobody looks up
	}
	e.proxy = &httputil.ReverseProxy{
		Rewrite:        func(pr *httputil.ProxyRequest) { tripOf(pr.In).rewrite(pr) },
		Transport:      resender{e.transport},
		ModifyResponse: func(r *http.Response) error { tripOf(r.Request).reply(r); return nil },
		ErrorHandler:   func(w http.ResponseWriter, r *http.Request, err error) { tripOf(r).fail(w, err) },
		BufferPool:     buffers{},
		ErrorLog:       e.errorLog,
	}
	return e
}

// buffers are those of copying.
type buffers struct{}

func (buffers) Get() []byte  { return gateway.GetBuffer(copyBytes)[:copyBytes] }
func (buffers) Put(b []byte) { gateway.PutBuffer(b) }

// handler serves the exchanges of one client's connection.
type handler struct {
	*common
	session *session
	carried *history // of the connection, if that is of a pair
}

// ServeHTTP serves one exchange.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer h.ended()
	defer h.caught()
	if h.wantsPair(r) {
		h.enter(w, r)
		return
	}
	metadata, fits := h.session.held.TakeMetadata(r)
	if !fits {
		h.cfg.Stats.Error("metadata")
		if h.carried != nil {
			w.Header().Set("Connection", "close") // the body will not be opened, and the histories differ from then on
		}
		http.Error(w, "cinch: no memory is free for the headers of this request (memory.budget)", http.StatusServiceUnavailable)
		return
	}
	defer h.session.held.Metadata.Release(metadata)
	if h.refused(w, r) {
		return
	}
	x := &trip{common: h.common, held: h.session.held, client: h.session.sharing, carried: h.carried, carriers: h.session.carriers, control: http.NewResponseController(w)}
	ctx, cancel := context.WithCancelCause(context.WithValue(r.Context(), tripKey{}, x))
	defer cancel(nil)
	x.in, x.cancel = r.WithContext(ctx), cancel
	defer x.close()
	if h.session.isDrained() && len(r.Header["Upgrade"]) == 0 {
		w.Header()["Connection"] = []string{"close"} // HTTP/2's server says GOAWAY for it
	}
	if h.cfg.Peers {
		w.Header()[pairHeader] = []string{pairVersion}
	}
	_ = x.control.EnableFullDuplex() // else the server would take what is left of the body when a reply begins
	h.proxy.ServeHTTP(newReplyWriter(w, x), x.in)
}

// caught logs a fault of ours, which ends the connection. net/http's own panic is how an exchange is broken off, and no fault.
func (h *handler) caught() {
	p := recover()
	if p == nil {
		return
	}
	if p != http.ErrAbortHandler {
		panics.Report(h.cfg.Log, h.cfg.Stats, p)
	}
	panic(http.ErrAbortHandler)
}

// ended lets the session go when the connection was taken over, as by WebSocket: the server says no more of it.
func (h *handler) ended() {
	if h.carried == nil && h.session.taken.Load() {
		h.session.end()
	}
}
