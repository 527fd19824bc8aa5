package http

import (
	"context"
	"maps"
	"net/http"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/peer/lanes"
	"github.com/cinch-layer/cinch/internal/system/panics"
)

// buffers provides buffers for copying bodies.
type buffers struct{}

func (buffers) Get() []byte  { return memory.GetBuffer(copyBytes)[:copyBytes] }
func (buffers) Put(b []byte) { memory.PutBuffer(b) }

// handler serves the exchanges of one client's connection.
type handler struct {
	*common
	session *session
	ends    *lanes.Ends // lanes of the client's link, if the client is a gateway
}

// ServeHTTP serves one exchange.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer h.endHijacked()
	defer h.catchPanic()
	metadata, fits := h.session.memory.TakeMetadata(r)
	if !fits {
		h.cfg.Stats.Error("metadata")
		http.Error(w, "cinch: no memory is free for the headers of this request (memory.budget)", http.StatusServiceUnavailable)
		return
	}
	defer h.session.memory.Metadata.Release(metadata)
	if r.Method == http.MethodConnect {
		w.Header().Set("Connection", "close") // the following bytes were meant for a tunnel, and are no request
		http.Error(w, "cinch: CONNECT is for forward proxies; this gateway forwards to its upstream only", http.StatusNotImplemented)
		return
	}
	if h.session.lengths.hasHiddenLength(r) {
		w.Header().Set("Connection", "close") // RFC 9112, 6.1: a length with chunks may be an attempt to smuggle a request
	}
	x := &exchange{common: h.common, rules: h.policy.Load(), memory: h.session.memory, payer: h.session.payer, client: h.session.upstreamClient, links: h.session.links, linkClient: h.session.linkClient, control: http.NewResponseController(w)}
	ctx, cancel := context.WithCancelCause(context.WithValue(r.Context(), exchangeKey{}, x))
	defer cancel(nil)
	x.in, x.cancel, x.arrived = r.WithContext(ctx), cancel, h.session.lengths.hasArrived(r)
	defer x.close()
	if h.session.isDrained() && len(r.Header["Upgrade"]) == 0 {
		w.Header()["Connection"] = []string{"close"} // HTTP/2's server sends GOAWAY for it
	}
	if h.ends != nil {
		x.meetPeer(x.in, h.ends, w)
	} else if h.cfg.Peers {
		w.Header()[linkHeader] = []string{formatTerms(h.cfg.MaxOpen)}
	}
	_ = x.control.EnableFullDuplex() // else the server would read the rest of the body when a reply begins
	h.proxy.ServeHTTP(newReplyWriter(w, x), x.in)
	if h.ends != nil {
		x.fromNear.out.Sent(true)
	}
}

// catchPanic logs a panic and ends the connection. http.ErrAbortHandler only aborts an exchange, and is not
// logged.
func (h *handler) catchPanic() {
	p := recover()
	if p == nil {
		return
	}
	if p != http.ErrAbortHandler {
		panics.Report(h.cfg.Log, h.cfg.Stats, p)
	}
	panic(http.ErrAbortHandler)
}

// endHijacked ends the session when the connection was taken over, as by WebSocket: the server does not
// report its end.
func (h *handler) endHijacked() {
	if h.session.hijacked.Load() {
		h.session.end()
	}
}

// replyWriter writes replies to a client as the upstream sent them.
type replyWriter struct {
	http.ResponseWriter
	x   *exchange
	own http.Header // fields that the gateway adds to the final reply
}

// newReplyWriter keeps the fields in w's header for the final reply. The reverse proxy clears the header
// after each interim reply.
func newReplyWriter(w http.ResponseWriter, x *exchange) *replyWriter {
	h := w.Header()
	var own http.Header
	if len(h) > 0 {
		own = maps.Clone(h)
		clear(h)
	}
	return &replyWriter{w, x, own}
}

// WriteHeader begins the final reply, or writes an interim one.
func (w *replyWriter) WriteHeader(status int) {
	in, h := w.x.in, w.Header()
	switch {
	case status < http.StatusOK && status != http.StatusSwitchingProtocols:
		if !w.mustSkipInterim(status) {
			w.ResponseWriter.WriteHeader(status)
		}
		return
	case in.ProtoMajor == 1 && !w.x.bodyEnded():
		h["Connection"] = []string{"close"} // the rest of the body must not be mistaken for a request
	}
	if w.x.fromNear.ends != nil {
		w.x.tellPeer(h)
	}
	maps.Copy(h, w.own)
	if len(h["Content-Type"]) == 0 {
		h["Content-Type"] = nil // else the server would guess one that the upstream does not name
	}
	w.ResponseWriter.WriteHeader(status)
}

// mustSkipInterim reports whether an interim reply must not be sent: the client speaks HTTP/1.0, or has been told to
// continue.
func (w *replyWriter) mustSkipInterim(status int) bool {
	in := w.x.in
	return !in.ProtoAtLeast(1, 1) || status == http.StatusContinue && len(in.Header["Expect"]) > 0 && w.x.bodyEnded()
}

// Unwrap lets http.ResponseController find the underlying writer.
func (w *replyWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
