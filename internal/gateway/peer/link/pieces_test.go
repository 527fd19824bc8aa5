package link

import (
	"crypto/tls"
	"io"
	"net"
	"slices"
	"syscall"
	"testing"

	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/test/testenv"
)

// waiting returns the number of received bytes of c that were not read, up to the length of buf.
func waiting(t *testing.T, c net.Conn, buf []byte) (n int) {
	if s, ok := c.(*tls.Conn); ok {
		c = s.NetConn()
	}
	raw, err := c.(*gateway.Conn).Conn.(*net.TCPConn).SyscallConn()
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

// said dials a server that says so much, after a few bytes, and waits until all of it is there.
func said(t *testing.T, size int, secret bool) net.Conn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	ca, scheme := testenv.NewAuthority(t), ""
	if secret {
		l, scheme = tls.NewListener(l, ca.Issue(t, "server").TLS(t)), "tls://"
	}
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = c.Write(make([]byte, 100))
		_, _ = c.Write(make([]byte, size))
		<-t.Context().Done()
		_ = c.Close()
	}()
	up, err := endpoint.ParseUpstream(scheme+l.Addr().String(), "")
	if err != nil {
		t.Fatal(err)
	}
	if secret {
		up.TLS.RootCAs = ca.Pool
	}
	c, err := gateway.Dial(t.Context(), up, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	peek := make([]byte, 2*size+1000)
	testenv.Eventually(t, "it is there", func() bool { return waiting(t, c, peek) >= size+100 })
	return c
}

// All bytes that have arrived go in one piece, also with TLS, whose records have 16 KiB.
func TestPieces(t *testing.T) {
	const size = 60_000
	for name, secret := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			c, l := said(t, size, secret), &Link{}
			total := 0
			for pieces := 1; total < size+100; pieces++ {
				buf, n, err := l.Collect(c)
				if err != nil || pieces > 2 {
					t.Fatalf("piece %d: %d bytes, %v", pieces, n, err)
				}
				total += n
				memory.PutBuffer(buf)
			}
		})
	}
}

// Without memory for long pieces all bytes go in short ones, and no peer is checked for stalls.
func TestPiecesWithoutMemory(t *testing.T) {
	const size = 60_000
	b := memory.NewBudget(1 << 20)
	a := b.Share("g").Account(&net.TCPAddr{}, nil)
	defer a.Close()
	taken := int64(0)
	for a.TakeSpare(16 << 10) {
		taken += 16 << 10
	}
	c, l := said(t, size, false), &Link{}
	l.out.memory.account = a
	for total := 0; total < size+100; {
		buf, n, err := l.Collect(c)
		if err != nil || n > freePiece {
			t.Fatalf("a piece of %d bytes, %v", n, err)
		}
		total += n
		memory.PutBuffer(buf)
	}
	if u := b.Use(); u.InUse != taken || u.Waits > 0 {
		t.Errorf("%+v", u)
	}
}

// A piece that looks random is compressed if a part of it doesn't: a form may have texts between pictures.
func TestTextBetweenRandomBytes(t *testing.T) {
	random := codectest.Random(PieceBytes, 1)
	for _, n := range []int{minLookBytes, lookBytes, lookBytes + 1, lookBytes + minLookBytes, PieceBytes} {
		if !isIncompressible(random[:n]) {
			t.Errorf("%d random bytes are compressed", n)
		}
	}
	missed := 0
	for at := 0; at < PieceBytes-3000; at += 997 {
		piece := slices.Clone(random)
		copy(piece[at:], codectest.JSON(3000, uint64(at)))
		if isIncompressible(piece) {
			missed++
		}
	}
	if missed > 0 {
		t.Errorf("3,000 bytes of JSON are missed at %d places", missed)
	}
}

// A link without a window in the hello gets one later, although its pieces are too short to be compressed alone.
func TestSmallPiecesGetAHistory(t *testing.T) {
	near, _ := withKey(t, "near", testKey)
	far, _ := withKey(t, "far", testKey)
	n, f, _ := carryNew(t, near, far)
	go func() { _, _ = io.Copy(io.Discard, n) }()
	go func() { _, _ = io.Copy(io.Discard, f) }()
	testenv.Eventually(t, "there is a stream with history", func() bool {
		if _, err := n.Write([]byte("7f3a9c52e1d80b64, which repeats")); err != nil {
			t.Fatal(err)
		}
		return near.State().Begun == 1
	})
}
