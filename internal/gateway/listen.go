package gateway

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// unixSocketMode lets owner and group connect, which the operator's umask may forbid.
const unixSocketMode = 0o660

// ErrAddressInUse is wrapped by Listen's error for a unix socket that another process serves.
var ErrAddressInUse = errors.New("address in use")

// Listen listens on "host:port" or "unix:/path". A unix socket gets mode 0660 and is removed when the
// listener closes. A socket that a dead process left behind is replaced; a live one, or a file that is no
// socket, is an error.
func Listen(addr string) (net.Listener, error) {
	path, ok := strings.CutPrefix(addr, "unix:")
	if !ok {
		return net.Listen("tcp", addr)
	}
	path = strings.TrimPrefix(path, "//") // unix:///path
	if err := removeStaleSocket(path); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	// Connecting needs write permission. Until this call the umask applies, which usually denies it to others.
	if err := os.Chmod(path, unixSocketMode); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// removeStaleSocket removes path only if it is a socket that refuses connections: a socket with a live
// listener, however busy, does not.
func removeStaleSocket(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("listen unix %s: the file exists and is not a socket: delete it or choose another path", path)
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = c.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("listen unix %s: %w", path, ErrAddressInUse)
	}
	return os.Remove(path)
}
