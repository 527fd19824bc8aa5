package differential

import (
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"
)

// inPieces forwards connections to addr and splits the bytes in both directions at random places, which
// must make no difference.
func inPieces(t *testing.T, addr string, seed uint64) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for n := seed; ; n += 2 {
			c, err := l.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", addr)
			if err != nil {
				_ = c.Close()
				continue
			}
			go cutUp(up, c, n)
			go cutUp(c, up, n+1)
		}
	}()
	return l.Addr().String()
}

// cutUp copies src to dst in pieces, and passes on the end of src.
func cutUp(dst, src net.Conn, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 11))
	buf := make([]byte, 128<<10)
	for {
		n, err := src.Read(buf[:1+r.IntN(len(buf))])
		if writePieces(dst, buf[:n], r) != nil || err != nil && err != io.EOF {
			_, _ = dst.Close(), src.Close()
			return
		}
		if err == io.EOF {
			_ = dst.(*net.TCPConn).CloseWrite()
			return
		}
	}
}

// writePieces mostly writes long pieces and rarely pauses, so that the test stays fast.
func writePieces(dst net.Conn, b []byte, r *rand.Rand) error {
	for len(b) > 0 {
		n := len(b)
		switch p := r.IntN(10); {
		case p < 1:
			n = 1 + r.IntN(4)
		case p < 3:
			n = 1 + r.IntN(300)
		case p < 5:
			n = bufferBytes - 8 + r.IntN(16)
		}
		n = min(n, len(b))
		if _, err := dst.Write(b[:n]); err != nil {
			return err
		}
		if b = b[n:]; r.IntN(8) == 0 {
			time.Sleep(time.Duration(r.IntN(100)) * time.Microsecond)
		}
	}
	return nil
}

// bufferBytes is the size of a gateway session's buffer for each direction.
const bufferBytes = 32 << 10
