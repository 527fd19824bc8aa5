//go:build !linux

package gateway

import "net"

// transferredByKernel is implemented on Linux only.
func transferredByKernel(net.Conn) (received, taken int64, ok bool) { return 0, 0, false }

// WasReset is implemented on Linux only.
func WasReset(net.Conn) bool { return false }
