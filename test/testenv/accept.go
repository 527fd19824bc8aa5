package testenv

import (
	"net"
	"sync"
	"testing"
)

// AcceptEach gives each connection that comes to l to handle, which owns it, in a goroutine of its
// own. The test's end closes l and waits for all of them.
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
