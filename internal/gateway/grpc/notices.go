package grpc

import (
	"log/slog"
	"sync"
)

// notices are what the log says of an upstream once, however many connections find it out.
type notices struct {
	log      *slog.Logger
	upstream string

	mu    sync.Mutex
	given map[string]bool
}

func newNotices(log *slog.Logger, upstream string) *notices {
	return &notices{log: log, upstream: upstream, given: map[string]bool{}}
}

// first reports whether the log has nothing yet about a matter.
func (n *notices) first(matter string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	given := n.given[matter]
	n.given[matter] = true
	return !given
}

// unread logs, once for each encoding, why nothing gets smaller, and reports whether it did.
func (n *notices) unread(encoding string) bool {
	if !n.first("unread " + encoding) {
		return false
	}
	n.log.Info("the upstream does not read the encoding of a rule, so messages go without: a second gateway beside it would open them, or compressors in it",
		"encoding", encoding, "upstream", n.upstream)
	return true
}

// refused logs, once for each encoding, that messages are opened that clients have compressed.
func (n *notices) refused(encoding string) {
	if n.first("refused " + encoding) {
		n.log.Info("the upstream does not read what clients have compressed, so it is opened for it", "encoding", encoding, "upstream", n.upstream)
	}
}

// noLanes logs once that the gateway behind a link is an older one.
func (n *notices) noLanes() {
	if n.first("lanes") {
		n.log.Info("the gateway at the other end of the link knows no lanes, so each message of cinch-proto is taken apart by itself: it is an older version", "upstream", n.upstream)
	}
}

// mute logs once that nobody knows what the upstream reads.
func (n *notices) mute() {
	if n.first("mute") {
		n.log.Info("the upstream does not say which encodings it reads and can't be asked, so messages go without: name those that it reads in upstream_encodings, or give it a health service",
			"upstream", n.upstream)
	}
}
