package grpc

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"github.com/cinch-layer/cinch/internal/gateway/grpc/lanes"
	"github.com/cinch-layer/cinch/internal/gateway/h2"
)

// errSilent is why a connection was given up.
var errSilent = errors.New("the upstream does not answer pings")

// hop is a connection to the upstream, shared by many calls.
type hop struct {
	h2.Pooled
	knows   *knowledge
	inquiry *inquiry

	spoke  *atomic.Bool // a server behind this pool has answered in HTTP/2 without TLS; nil: there is TLS
	heard  atomic.Int64 // headers and pieces of messages that calls got
	silent atomic.Bool  // it was given up, because the server is gone without a word

	carried bool                  // over a link
	lanes   *lanes.Ends           // of that; nil: it has none
	noLink  atomic.Pointer[error] // why it is none though it should be; nil once it has been answered
}

// ping reports whether the server answers a ping in time. What else it sends meanwhile does as
// well: the answer may be behind much of it. So does the connection's end, which calls hear of themselves.
func (h *hop) ping(in time.Duration) bool {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), in)
		err := h.Conn.Ping(ctx)
		late := ctx.Err() != nil
		cancel()
		if err == nil || !late {
			return true
		}
		if h.Conn.Silence() >= in {
			return false
		}
	}
}

// giveUp ends the calls on a connection, with UNAVAILABLE.
func (h *hop) giveUp() {
	h.silent.Store(true)
	h.Conn.Close()
}

// explain says why a call on h failed, when the error doesn't.
func (h *hop) explain(err error) error {
	switch {
	case h.silent.Load():
		return errSilent
	case h.mayNeedTLS() && broken(err):
		return fmt.Errorf("%w (nothing there ever spoke HTTP/2 without TLS; with TLS it is grpcs://)", err)
	}
	return err
}

// mayNeedTLS reports whether there is no sign yet that the upstream speaks HTTP/2 in clear: neither on this connection, whose
// server begins with its settings, nor on others. One that has died, or a balancer before it, must not be taken for one with TLS.
func (h *hop) mayNeedTLS() bool {
	return h.spoke != nil && !h.spoke.Load() && !h.carried && !h.Conn.Spoke()
}

// broken reports whether err is the connection's end and not that of one call.
func broken(err error) bool {
	var reset http2.StreamError
	return !errors.As(err, &reset) && !h2.NotSeen(err) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// unusable reports whether a connection turned out to be of no use before anything of the
// call was sent.
func unusable(err error) bool { return errors.Is(err, h2.ErrUnusable) }
