//go:build !linux

package gateway

import "net"

// WasReset is implemented on Linux only.
func WasReset(net.Conn) bool { return false }
