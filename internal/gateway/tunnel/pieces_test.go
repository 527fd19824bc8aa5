package tunnel

import (
	"crypto/tls"
	"net"
	"syscall"
	"testing"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/test/testenv"
)

// waiting is how many bytes the system has for c, up to the length of buf.
func waiting(t *testing.T, c *tls.Conn, buf []byte) (n int) {
	raw, err := c.NetConn().(*gateway.Conn).Conn.(*net.TCPConn).SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) {
			n, _, _ = syscall.Recvfrom(int(fd), buf, syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// What is there goes in one piece, with TLS too, whose records are of 16 KiB.
func TestPiecesOfTLS(t *testing.T) {
	const size = 60_000
	ca := testenv.NewAuthority(t)
	read := make(chan struct{})
	up, err := gateway.ParseUpstream("tls://"+server(t, func(c *net.TCPConn) {
		s := tls.Server(c, ca.Issue(t, "server").TLS(t))
		defer s.Close()
		_, _ = s.Write(make([]byte, 100))
		_, _ = s.Write(make([]byte, size))
		<-read
	}), "")
	if err != nil {
		t.Fatal(err)
	}
	up.TLS.RootCAs = ca.Pool
	c, err := up.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	defer close(read)
	peek := make([]byte, 2*size)
	waitFor(t, func() bool { return waiting(t, c.(*tls.Conn), peek) > size })
	total := 0
	for pieces := 1; total < size+100; pieces++ {
		buf, n, err := readAll(c)
		if err != nil || pieces > 2 {
			t.Fatalf("piece %d: %d bytes, %v", pieces, n, err)
		}
		total += n
		gateway.PutBuffer(buf)
	}
}
