//go:build !linux

package gateway

import "net"

// WasReset is known on Linux only.
func WasReset(net.Conn) bool { return false }
