package http

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/h2"
	"github.com/cinch-layer/cinch/internal/gateway/held"
	"github.com/cinch-layer/cinch/internal/gateway/sampled"
	"github.com/cinch-layer/cinch/internal/policy"
)

// common is what all exchanges of a gateway share.
type common struct {
	cfg       *Config
	policy    *atomic.Pointer[policy.Messages]
	coder     coder
	knows     *knowledge
	transport *transport
	upstream  url.URL // scheme and host
	proxy     *httputil.ReverseProxy
	errorLog  *log.Logger   // net/http's
	ahead     chan struct{} // see held.Grant

	samples   *sampled.Samples // nil: nothing is measured
	histories *histories       // of connections with other gateways; nil: there are none
	farSide   *farSide         // the upstream as a gateway; nil: it is none
	carriers  *carriers        // to it, of all clients; nil: they have their own, or none
}

// trip is one request and its reply.
type trip struct {
	*common
	rules  *policy.Messages // in force when it began; nil: there are none yet
	held   *held.Allowance  // the client's
	client *h2.Client       // that one, for upstreams of HTTP/2; nil: the upstream is none
	in     *http.Request

	control *http.ResponseController // of the client's request
	cutting sync.Mutex
	over    bool // control is not to be used any more
	noLimit bool // of time, for the body, is set any more
	cancel  context.CancelCauseFunc

	ended                  atomic.Bool // the client's body has been read to its end
	requestBody, replyBody *wholeBody  // nil: not in memory
	openedReply            *wholeBody  // what replyBody was made of, if that is changed once more
	sentCoding             string      // that the request's body was given; "": none
	originalBody           *original   // as the client sent it, if it is in memory and was sent otherwise
	broken                 error       // rewrite can't return one: RoundTrip returns it, and sends nothing

	carried  *history  // of the client's connection, if the client is a gateway
	carriers *carriers // to the far gateway; nil: there is none
	carrier  *carrier  // that the exchange uses; nil: none
	accounts []*gateway.Account
}

type tripKey struct{}

func tripOf(r *http.Request) *trip { return r.Context().Value(tripKey{}).(*trip) }

// close gives back what is held.
func (x *trip) close() {
	x.giveBack(false)
	x.cutting.Lock()
	x.over = true
	x.cutting.Unlock()
	for _, b := range []*wholeBody{x.requestBody, x.replyBody, x.openedReply} {
		if b != nil {
			b.close()
		}
	}
	for _, a := range x.accounts {
		a.Close()
	}
}

// errCarried says that a body does not fit the history; what follows on the connection would not either.
var errCarried = errors.New("the body of the near gateway can't be opened")

// bodyEnded reports whether all of the request has come.
func (x *trip) bodyEnded() bool { return x.in.Body == http.NoBody || x.ended.Load() }

// errBodySlow reports a client that has stopped sending its request's body.
var errBodySlow = errors.New("the rest of the request's body did not come")

// limitBody sets when reading the request's body fails; the zero time: never. Calls of gRPC have no such limit: a client may have
// nothing to say for long.
func (x *trip) limitBody(at time.Time) {
	x.cutting.Lock()
	defer x.cutting.Unlock()
	x.limitBodyLocked(at)
}

func (x *trip) limitBodyLocked(at time.Time) {
	if !x.over && !x.noLimit && !strings.HasPrefix(x.in.Header.Get("Content-Type"), "application/grpc") {
		_ = x.control.SetReadDeadline(at)
	}
}

// answered ends the limit of the body: a client may talk with the upstream both ways for as long as they like.
func (x *trip) answered() {
	x.cutting.Lock()
	defer x.cutting.Unlock()
	x.limitBodyLocked(time.Time{})
	x.noLimit = true
}

// errRequest says that a client's body didn't come as it had said.
var errRequest = errors.New("the body of the request did not come as it should")

// giveBack ends the use of a carrier. Only after a complete exchange others may use it.
func (x *trip) giveBack(complete bool) {
	c := x.carrier
	x.carrier = nil
	switch {
	case c == nil:
	case complete && !c.isFull():
		x.carriers.put(c)
	default:
		x.carriers.drop(c)
	}
}

func (x *trip) dropCarrier() { x.giveBack(false) }

// holdRequest is the request's body in memory, holdReply the reply's, as soon as it has been read.
func (x *trip) holdRequest(out *http.Request) *wholeBody {
	x.requestBody = newWholeBody(x.in.Context(), out.Body, gateway.FromClient, x.held.Requests, x.ahead, x.cut)
	return x.requestBody
}

func (x *trip) holdReply(resp *http.Response) *wholeBody {
	if x.replyBody != nil { // a far gateway's, which was opened
		x.openedReply, x.replyBody = x.replyBody, nil
	}
	x.replyBody = newWholeBody(x.in.Context(), resp.Body, gateway.FromUpstream, x.held.Replies, x.ahead, x.cut)
	return x.replyBody
}

// stream compresses a body of unknown length as it comes, for one of the client's accounts; nil if there is no memory.
func (x *trip) stream(src io.ReadCloser, ch recoding, of *gateway.Client) *streamBody {
	account := &gateway.Account{}
	account.Open(of, nil)
	x.accounts = append(x.accounts, account)
	s := newStream(x.cfg, src, ch, account)
	if s == nil {
		x.countLeft(ch.rule, leftBudget, 0)
	}
	return s
}

// lastWords is how long an exchange that is cut off may take to tell its client.
const lastWords = time.Second

var errSlow = errors.New("it moved too little while others waited for the memory that its body holds")

// cut ends the exchange: what it reads from its client at once, what it writes to it when there was time to say why.
func (x *trip) cut(v gateway.Verdict) {
	defer gateway.CatchPanic(x.cfg.Log, x.cfg.Stats, nil)
	x.cutting.Lock()
	defer x.cutting.Unlock()
	if x.over {
		return
	}
	x.noLimit = true // the deadline below is the last one
	gateway.LogCut(x.cfg.Log, x.cfg.Stats, x.held.Addr, v)
	x.cancel(errSlow)
	_ = x.control.SetReadDeadline(time.Now())
	_ = x.control.SetWriteDeadline(time.Now().Add(lastWords))
}

// fail answers in place of the upstream.
func (x *trip) fail(w http.ResponseWriter, err error) {
	slow := errors.Is(context.Cause(x.in.Context()), errSlow)
	if x.in.Context().Err() != nil && !slow {
		panic(http.ErrAbortHandler) // the client has gone; one that only has closed its side must not take silence for a reply
	}
	status, class := http.StatusBadGateway, "upstream_reply"
	var refused *net.OpError
	switch {
	case slow:
		status, class, err = http.StatusRequestTimeout, "", errSlow // counted by cut
		if x.in.ProtoMajor == 1 {
			w.Header().Set("Connection", "close")
		}
	case errors.Is(err, errCarried):
		w.Header().Set("Connection", "close") // the histories differ
		class = ""
	case errors.Is(err, errBodySlow):
		status, class = http.StatusRequestTimeout, "request"
		if x.in.ProtoMajor == 1 {
			w.Header().Set("Connection", "close")
		}
	case errors.Is(err, errRequest):
		status, class = http.StatusBadRequest, "request"
	case errors.Is(err, h2.ErrHeaderSize):
		status, class = http.StatusRequestHeaderFieldsTooLarge, "request"
	case errors.Is(err, gateway.ErrUnreachable), errors.As(err, &refused) && refused.Op == "dial":
		class = "" // counted by the dialer
	}
	if class != "" {
		x.cfg.Stats.Error(class)
		x.cfg.Log.Debug("exchange failed", "client", x.held.Addr, "path", x.in.URL.Path, "err", err)
	}
	http.Error(w, "cinch: "+err.Error(), status)
}
