//go:build !linux

package gateway

import (
	"net"
	"time"
)

// setUserTimeout does nothing: this system has no such option. Keep-alive probes detect a silent peer all the
// same; for unacknowledged bytes the system's own timeout applies.
func setUserTimeout(*net.TCPConn, time.Duration) {}
