package grpc

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/grpc/lanes"
	"github.com/cinch-layer/cinch/internal/gateway/h2"
	"github.com/cinch-layer/cinch/internal/gateway/held"
	"github.com/cinch-layer/cinch/internal/gateway/sampled"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/trace"
)

// shared is what all calls of a gateway use.
type shared struct {
	policy     *atomic.Pointer[policy.Messages]
	dicts      *dictionaries
	opener     *opener
	compressor *compressor
	replays    *gateway.Budget  // of what is kept of requests for another attempt
	samples    *sampled.Samples // of all messages; nil: they are not measured
	lanes      *lanes.Shared    // nil: links have none
	tracer     *trace.Tracer    // nil: no call is traced
	name       string           // of the gateway
	stats      *gateway.Stats
	log        *slog.Logger
}

// faults is where panics are reported.
func (s *shared) faults() h2.Faults { return h2.Faults{Log: s.log, Stats: s.stats} }

// handler serves the calls of one client's connection.
type handler struct {
	*shared
	calls   *underway
	memory  *held.Allowance
	peer    *peer // the client as a gateway; nil: it is none
	pool    *pool
	client  *h2.Client  // of pool
	carried bool        // over a link
	ends    *lanes.Ends // of that; nil: it has no lanes

	accepted atomic.Pointer[accepted] // by the last call
}

// So much of a request is kept for another attempt: of one whose messages we change, and of
// any other.
const (
	replayBytes      = 1 << 20
	replayBytesPlain = 64 << 10
)

// noTerms are those of a request that is no gRPC call.
var noTerms = &negotiation{accepted: &accepted{}}

// ServeHTTP serves a call.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, pairPaths) {
		h.peer.serve(w, r)
		return
	}
	metadata, fits := h.memory.TakeMetadata(r)
	if !fits {
		h.refuse(w, r)
		return
	}
	defer h.memory.Metadata.Release(metadata)
	c := call{handler: h, w: w.(h2.ResponseWriter), r: r, grpc: isGRPC(r.Header), start: time.Now(), terms: noTerms}
	c.trace = traceCall(h.tracer, h.name, r, c.grpc)
	defer c.trace.of.End()
	if c.grpc {
		c.terms = negotiate(h.policy.Load(), r, h.carried, &h.accepted)
		if !c.terms.pair(r, h.peer, h.dicts, h.samples) {
			ending{code: codeUnimplemented, message: "unknown grpc-encoding " + pairEncoding}.fail(w, false)
			return
		}
		if !c.terms.lanes.meet(r, h.ends, c.terms.from) {
			ending{code: codeUnimplemented, message: "unknown grpc-encoding " + lanes.Encoding}.fail(w, false)
			return
		}
	} else {
		c.trailers = trailerNames(r)
	}
	limit := replayBytesPlain
	if len(c.terms.requests) > 0 || c.terms.from != "" {
		limit = replayBytes
	}
	c.tape.faults = h.faults()
	c.tape.begin(c.clientBody(), limit, h.replays)
	defer c.finish()
	h.calls.begin(&c, &c.place)
	defer h.calls.end(&c.place)
	c.serve()
	h.stats.Latency(c.spent + c.unlaned.spent())
}

var errMetadata = errors.New("no memory is free for the metadata of this call (memory.budget)")

// refuse answers a call for whose metadata there is no memory.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request) {
	h.stats.Error("metadata")
	if !isGRPC(r.Header) {
		http.Error(w, "cinch: "+errMetadata.Error(), http.StatusServiceUnavailable)
		return
	}
	ending{code: codeResourceExhausted, message: errMetadata.Error()}.fail(w, false)
}
