package redis

import "github.com/cinch-layer/cinch/internal/wire/resp"

// ownFailures are errors by which production speaks of itself at that moment, or of its client's rights, not of the command: targets, where clients
// have other rights, would carry it out.
var ownFailures = map[string]bool{
	"NOAUTH": true, "NOPERM": true, // the client's rights
	"LOADING": true, "MASTERDOWN": true, "READONLY": true, "UNBLOCKED": true, // a restart, a failover
	"OOM": true, "MISCONF": true, "NOREPLICAS": true, "BUSY": true, // a shortage
	"CLUSTERDOWN": true, "MOVED": true, "ASK": true, "TRYAGAIN": true, "REDIRECT": true,
}

// failedByItself is the error of a reply that is one of these; "": it is none.
func failedByItself(frame []byte) string {
	if frame[0] != resp.Error && frame[0] != resp.BulkError {
		return ""
	}
	if code := answerOf(frame, plain).Error; ownFailures[code] {
		return code
	}
	return ""
}

const byItself = "failed in production by itself: "
