package gateway

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

func TestReadFirst(t *testing.T) {
	for name, wrap := range map[string]func(net.Conn, *Stats) net.Conn{
		"counted": func(c net.Conn, s *Stats) net.Conn { return newConn(c, s.side(sideClient)) },
		"bare":    func(c net.Conn, _ *Stats) net.Conn { return c },
	} {
		t.Run(name, func(t *testing.T) {
			stats := NewStats("test", "line")
			a, b := tcpPair(t)
			c := wrap(b, stats)
			said := bytes.Repeat([]byte("0123456789"), 5000)
			go func() {
				_, _ = a.Write(said)
				_ = CloseWrite(a)
			}()
			got := readAllFirst(t, c)
			if !bytes.Equal(got, said) {
				t.Errorf("read %d bytes of %d, or others", len(got), len(said))
			}
			if n := stats.Snapshot().Wire.Client.ReceivedBytes; name == "counted" && n != uint64(len(said)) {
				t.Errorf("counted %d bytes of %d", n, len(said))
			}
		})
	}
}

// readAllFirst reads to EOF, with ReadFirst only.
func readAllFirst(t *testing.T, c net.Conn) []byte {
	t.Helper()
	var all []byte
	for {
		buf, n, err := ReadFirst(c, 4096)
		if errors.Is(err, io.EOF) && buf == nil && n == 0 {
			return all
		}
		if err != nil || n == 0 || len(buf) < 4096 {
			t.Fatalf("%d bytes in a buffer of %d, %v", n, len(buf), err)
		}
		all = append(all, buf[:n]...)
		memory.PutBuffer(buf)
	}
}

// ReadNext uses the spare buffer for bytes that are there, and puts it back when there are none.
func TestReadNext(t *testing.T) {
	a, b := tcpPair(t)
	c := newConn(b, nil)
	for _, there := range []bool{true, false, true} {
		spare := memory.GetBuffer(4096)[:4096]
		if there {
			writeAll(t, a, "hello")
			awaitBytes(t, b)
		} else {
			time.AfterFunc(50*time.Millisecond, func() { _, _ = a.Write([]byte("hello")) })
		}
		buf, n, err := ReadNext(c, spare, 4096)
		if err != nil || string(buf[:n]) != "hello" || len(buf) < 4096 {
			t.Fatalf("%q in a buffer of %d, %v", buf[:n], len(buf), err)
		}
		if there && &buf[0] != &spare[0] {
			t.Error("bytes that were there are in another buffer")
		}
		memory.PutBuffer(buf)
	}
	_ = c.SetReadDeadline(time.Unix(1, 0))
	if buf, n, err := ReadNext(c, memory.GetBuffer(4096)[:4096], 4096); buf != nil || n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("deadline: %d bytes, %v", n, err)
	}
}

func writeAll(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

// awaitBytes returns when c has something to read.
func awaitBytes(t *testing.T, c net.Conn) {
	t.Helper()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	err = raw.Read(func(fd uintptr) bool {
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK)
		return n > 0 || err != syscall.EAGAIN
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestReadFirstEndsAtDeadlineAndClose(t *testing.T) {
	_, b := tcpPair(t)
	c := newConn(b, nil)
	_ = c.SetReadDeadline(time.Unix(1, 0))
	if buf, _, err := ReadFirst(c, 10); buf != nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("deadline: %v", err)
	}
	_ = c.SetReadDeadline(time.Time{})
	result := make(chan error, 1)
	go func() {
		_, _, err := ReadFirst(c, 10)
		result <- err
	}()
	c.Close()
	if err := <-result; !errors.Is(err, net.ErrClosed) {
		t.Errorf("close: %v", err)
	}
}

// A TLS connection buffers bytes, so they may be in memory already.
func TestReadFirstOverTLS(t *testing.T) {
	ca := newTestCA(t)
	h := startServer(t, &Server{TLS: ca.serverConfig(t)})
	c := mustDialTLS(t, h.addr, ca.clientConfig(t))
	defer c.Close()
	line := append(bytes.Repeat([]byte("x"), 20_000), '\n')
	if _, err := c.Write(line); err != nil {
		t.Fatal(err)
	}
	var got []byte
	for len(got) < len(line) {
		buf, n, err := ReadFirst(c, 4096)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, buf[:n]...)
		memory.PutBuffer(buf)
	}
	if !bytes.Equal(got, line) {
		t.Error("other bytes")
	}
}
