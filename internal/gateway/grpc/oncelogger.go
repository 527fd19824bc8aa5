package grpc

import (
	"log/slog"
	"sync"
)

// onceLogger logs facts about an upstream once, however many connections find them out.
type onceLogger struct {
	log      *slog.Logger
	upstream string
	logged   sync.Map // by matter
}

// isFirst reports whether a matter has not been logged yet, and records it.
func (n *onceLogger) isFirst(matter string) bool {
	_, wasLogged := n.logged.LoadOrStore(matter, true)
	return !wasLogged
}

// unreadEncoding logs, once for each encoding, why messages are not compressed. It reports whether it logged.
func (n *onceLogger) unreadEncoding(encoding string) bool {
	if !n.isFirst("unread " + encoding) {
		return false
	}
	n.log.Info("the upstream does not support the encoding of a rule, so messages are sent uncompressed; run a second gateway beside the upstream, or add the encoding to the server",
		"encoding", encoding, "upstream", n.upstream)
	return true
}

// refusedEncoding logs, once for each encoding, that messages from clients have to be decompressed.
func (n *onceLogger) refusedEncoding(encoding string) {
	if n.isFirst("refused " + encoding) {
		n.log.Info("the upstream does not support the encoding of clients' messages, so the gateway decompresses them", "encoding", encoding, "upstream", n.upstream)
	}
}

// noLanes logs once that the gateway behind a link is an older version.
func (n *onceLogger) noLanes() {
	if n.isFirst("lanes") {
		n.log.Info("the gateway at the other end of the link is an older version without lanes, so each cinch-proto message is compressed by itself", "upstream", n.upstream)
	}
}

// probeUnavailable logs once that it can't be found out which encodings the upstream reads.
func (n *onceLogger) probeUnavailable() {
	if n.isFirst("mute") {
		n.log.Info("the upstream does not report which encodings it supports and can't be asked, so messages are sent uncompressed; list them in upstream_encodings, or give the upstream a health service",
			"upstream", n.upstream)
	}
}
