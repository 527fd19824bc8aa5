package gateway

import (
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/system/panics"
)

// CatchPanic is [panics.Catch] for the goroutines of gateways: onPanic (may be nil) ends the call or the
// connection that panicked. The server defers it for Run and Drain; a session defers it in the goroutines
// that it starts.
func CatchPanic(log *slog.Logger, stats *Stats, onPanic func()) {
	if p := recover(); p != nil {
		panics.Report(log, stats, p)
		if onPanic != nil {
			onPanic()
		}
	}
}

// ErrPanicked is the error of calls and connections that a panic has ended. The log has the stack.
var ErrPanicked = panics.Err

// ErrorClasses maps errors that report violations of a protocol to class names.
type ErrorClasses []struct {
	Err   error
	Class string
}

// Of returns the class of the first entry that err matches. It returns "" if none matches, as for an ordinary end.
func (c ErrorClasses) Of(err error) string {
	for _, known := range c {
		if errors.Is(err, known.Err) {
			return known.Class
		}
	}
	return ""
}

// LogEnd counts and logs that a session ended because peer sent invalid input. class names the violation
// of the protocol; "" means an ordinary end, which is neither counted nor logged.
func LogEnd(log *slog.Logger, stats *Stats, client net.Conn, peer memory.Peer, class string, err error) {
	if class == "" {
		return
	}
	if peer == memory.FromUpstream {
		class = "upstream_" + class
	}
	stats.Error(class)
	log.Warn(peer.String()+" sent invalid data, disconnected", "client", client.RemoteAddr().String(), "err", err)
}

// LogCut counts and logs that a peer was disconnected because its message holds memory that others wait for.
func LogCut(log *slog.Logger, stats *Stats, client net.Addr, v memory.StallReason) {
	stats.Error("stalled")
	why := "it is stalled while others wait for the memory that its message holds"
	if v.Turn {
		why = "it takes too long to finish a message while others wait for their turn"
	}
	log.Warn(v.Peer.String()+" is too slow, disconnected", "client", client.String(), "why", why, "held_bytes", v.Held,
		"moved_bytes", v.Moved, "in", v.In.Round(time.Millisecond))
}

// DecodeFailure returns the error class, for counters and logs, of a value that can't be decoded, and the text of
// the error for the client, without a prefix of the protocol.
//
// Clients get the same text for a missing dictionary, a wrong tag and any other damage: a client that writes
// forged envelopes must not learn from it which dictionaries exist, or how close a guess was. Errors that follow
// from the header alone are reported in full, since clients can read the header too.
func DecodeFailure(err error) (class, text string) {
	const prefix = "compressed value can't be decompressed: "
	switch class = decodeErrorClass(err); class {
	case "unknown_codec", "too_large":
		return class, prefix + err.Error()
	}
	return class, prefix + "it is damaged or its dictionary is missing, see the gateway's log"
}

func decodeErrorClass(err error) string {
	switch {
	case errors.Is(err, envelope.ErrUnknownCodec):
		return "unknown_codec"
	case errors.Is(err, envelope.ErrDictMissing):
		return "dictionary_missing"
	case errors.Is(err, envelope.ErrTooLarge):
		return "too_large"
	case errors.Is(err, envelope.ErrTag):
		return "wrong_tag"
	case errors.Is(err, envelope.ErrDamaged):
		return "damaged"
	}
	return "dictionary_unavailable"
}
