package http

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync/atomic"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
)

// common is what all exchanges of a gateway share.
type common struct {
	cfg       *Config
	policy    *atomic.Pointer[policy.Messages]
	coder     coder
	knows     *knowledge
	transport *http.Transport
	upstream  url.URL // scheme and host
	proxy     *httputil.ReverseProxy
}

// trip is one request and its reply.
type trip struct {
	*common
	session *session
	in      *http.Request
	cancel  context.CancelCauseFunc

	request, response *wholeBody // nil: not in memory
	again             *original  // what was sent otherwise than it came; nil: nothing
	accounts          []*gateway.Account
}

type tripKey struct{}

func tripOf(r *http.Request) *trip { return r.Context().Value(tripKey{}).(*trip) }

// close gives back what is held.
func (x *trip) close() {
	for _, b := range []*wholeBody{x.request, x.response} {
		if b != nil {
			b.close()
		}
	}
	for _, a := range x.accounts {
		a.Close()
	}
}

// errRequest says that a client's body didn't come as it had said.
var errRequest = errors.New("the body of the request ended early")

var errSlow = errors.New("it moved too little while others waited for the memory that its body holds")

// cut ends the exchange.
func (x *trip) cut(v gateway.Verdict) {
	gateway.LogCut(x.cfg.Log, x.cfg.Stats, x.session.held.Addr, v)
	x.cancel(errSlow)
}

// fail answers in place of the upstream.
func (x *trip) fail(w http.ResponseWriter, err error) {
	if x.in.Context().Err() != nil {
		return // the client has gone
	}
	status, class := http.StatusBadGateway, "upstream_reply"
	var refused *net.OpError
	switch {
	case errors.Is(context.Cause(x.in.Context()), errSlow), errors.Is(err, errSlow):
		status, class = http.StatusRequestTimeout, "stalled"
	case errors.Is(err, errRequest):
		status, class = http.StatusBadRequest, "request"
	case errors.Is(err, gateway.ErrUnreachable), errors.As(err, &refused) && refused.Op == "dial":
		class = "" // counted by who dialled
	}
	if class != "" {
		x.cfg.Stats.Error(class)
		x.cfg.Log.Debug("exchange failed", "client", x.session.held.Addr, "path", x.in.URL.Path, "err", err)
	}
	http.Error(w, "cinch: "+err.Error(), status)
}
