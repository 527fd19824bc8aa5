package gateway

import (
	"errors"
	"log/slog"
	"net"
	"runtime/debug"
)

// Peer is one of the two that a session stands between.
type Peer string

// The two.
const (
	FromClient   Peer = "client"
	FromUpstream Peer = "upstream"
)

// CatchPanic, when deferred, keeps a panic of one connection's goroutine from
// ending the process: it logs the panic with its stack, counts it and calls
// onPanic (nil: nothing), which should end that connection. The server does this
// for Run and Drain; a session defers it in the goroutines that it starts.
func CatchPanic(log *slog.Logger, stats *Stats, onPanic func()) {
	p := recover()
	if p == nil {
		return
	}
	stats.Error("panic")
	log.Error("panic in a session", "panic", p, "stack", string(debug.Stack()))
	if onPanic != nil {
		onPanic()
	}
}

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
	log.Warn(string(who)+" sent what is not valid, disconnected", "client", client.RemoteAddr().String(), "err", err)
}
