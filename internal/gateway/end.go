package gateway

import (
	"errors"
	"log/slog"
	"net"

	"github.com/cinch-layer/cinch/internal/panics"
)

// Peer is one of the two that a session stands between, or none. It is a bit, so that an Account may wait for both.
type Peer int32

// The two.
const (
	FromClient Peer = 1 << iota
	FromUpstream
)

// String returns the name in messages and in the log.
func (p Peer) String() string {
	switch p {
	case FromClient:
		return "client"
	case FromUpstream:
		return "upstream"
	}
	return ""
}

// CatchPanic is [panics.Catch] for the goroutines of gateways: onPanic (nil: nothing) ends the call or the connection that the
// panic belongs to. The server does this for Run and Drain; a session defers it in the goroutines that it starts.
func CatchPanic(log *slog.Logger, stats *Stats, onPanic func()) {
	if p := recover(); p != nil {
		panics.Report(log, stats, p)
		if onPanic != nil {
			onPanic()
		}
	}
}

// ErrPanicked is the error of what a panic has ended. The log has the stack.
var ErrPanicked = panics.Err

// ErrorClasses names violations of a protocol, by the errors that report them.
type ErrorClasses []struct {
	Err   error
	Class string
}

// Of is the class of the first that err is; "" for none, as an ordinary end has.
func (c ErrorClasses) Of(err error) string {
	for _, known := range c {
		if errors.Is(err, known.Err) {
			return known.Class
		}
	}
	return ""
}

// LogEnd counts and logs that a conversation with a client was broken off because of what a peer
// sent. class names the violation of the protocol; an ordinary end has none, and is no matter.
func LogEnd(log *slog.Logger, stats *Stats, client net.Conn, who Peer, class string, err error) {
	if class == "" {
		return
	}
	if who == FromUpstream {
		class = "upstream_" + class
	}
	stats.Error(class)
	log.Warn(who.String()+" sent what is not valid, disconnected", "client", client.RemoteAddr().String(), "err", err)
}
