package http

import (
	"net/http"
	"strings"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// collectBytes is how long a message may be that is waited for though its length isn't known: more than exporters of telemetry send.
const collectBytes = 4 << 20

// collect reads a body without a length into memory, if it is a message of Protocol Buffers, which is of no use to anybody before it
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
		out.Body = readCloser{b.give(b.in, out.Body, gateway.FromUpstream), out.Body}
	default:
		return b.in, true
	}
	return nil, false
}

// isMessage reports whether a body is one message of Protocol Buffers.
func isMessage(h http.Header) bool {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	return kind == "application/x-protobuf" || kind == "application/protobuf"
}
