package testenv

import (
	"net"
	"sync"
	"testing"
)

// AcceptEach calls handle for each connection that l accepts, in a goroutine of its own. handle owns the
// connection. When the test ends, l is closed and all handlers are waited for.
func AcceptEach(t testing.TB, l net.Listener, handle func(net.Conn)) {
	var all sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { handle(c) })
		}
	})
}
