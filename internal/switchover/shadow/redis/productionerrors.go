package redis

import "github.com/cinch-layer/cinch/internal/wire/resp"

// productionErrors holds the codes of errors that are due to production's state at that moment or to the
// client's rights, not to the command. Targets would execute it.
var productionErrors = map[string]bool{
	"NOAUTH": true, "NOPERM": true, // the client's rights
	"LOADING": true, "MASTERDOWN": true, "READONLY": true, "UNBLOCKED": true, // a restart, a failover
	"OOM": true, "MISCONF": true, "NOREPLICAS": true, "BUSY": true, // a shortage
	"CLUSTERDOWN": true, "MOVED": true, "ASK": true, "TRYAGAIN": true, "REDIRECT": true,
}

// productionErrorCode returns the error code of a reply if it is one of productionErrors, otherwise "".
func productionErrorCode(frame []byte) string {
	if frame[0] != resp.Error && frame[0] != resp.BulkError {
		return ""
	}
	if code := answerOf(frame, plain).Error; productionErrors[code] {
		return code
	}
	return ""
}

const productionErrorPrefix = "failed in production by itself: "
