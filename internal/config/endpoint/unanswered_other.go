//go:build !linux

package endpoint

import (
	"net"
	"time"
)

// limitUnanswered does nothing: this system has no option for it. Keep-alive probes detect a silent peer all
// the same; for unacknowledged bytes the system's own timeout applies.
func limitUnanswered(*net.TCPConn, time.Duration) {}
