package gateway

import (
	"io"
	"net"
	"testing"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/test/testenv"
)

// Progress counts the bytes that the other end has taken: on TCP even while a long write is stuck, on a unix socket
// after each piece that was written.
func TestTransferred(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			near, far := connected(t, network)
			c := newConn(near, nil)
			s := &Stream{From: c, To: c, Client: c}
			var nobody *memory.Account
			go func() { _ = nobody.Send(c, memory.FromClient, make([]byte, 32<<20)) }()
			buf := make([]byte, 256<<10)
			if _, err := io.ReadFull(far, buf); err != nil {
				t.Fatal(err)
			}
			testenv.Eventually(t, "what was read is known", func() bool { return s.Progress() >= int64(len(buf)) })
			if network == "tcp" && s.Progress() > 24<<20 {
				t.Errorf("%d bytes are said to be taken", s.Progress())
			}
			if _, err := far.Write(buf[:1000]); err != nil {
				t.Fatal(err)
			}
			before := s.Progress()
			if _, err := io.ReadFull(c, buf[:1000]); err != nil {
				t.Fatal(err)
			}
			if received, _ := transferred(c); received != 1000 || before > s.Progress() {
				t.Errorf("%d bytes received", received)
			}
		})
	}
}

func connected(t *testing.T, network string) (near, far net.Conn) {
	t.Helper()
	addr := "127.0.0.1:0"
	if network == "unix" {
		addr = t.TempDir() + "/s"
	}
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if far, err = net.Dial(network, l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if near, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	return near, far
}
