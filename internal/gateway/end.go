package gateway

import (
	"errors"
	"log/slog"
	"net"

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
