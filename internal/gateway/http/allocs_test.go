package http

import (
	"bytes"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// Limits on a POST of 1 KiB over HTTP/1.1 that is not changed, including both connections.
const (
	postAllocs = 100
	postBytes  = 11 << 10
)

const okReply = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"

// rawPost returns a request as clients send it.
func rawPost(body []byte) []byte {
	return append([]byte("POST /some/path HTTP/1.1\r\nHost: test\r\nUser-Agent: test\r\nContent-Length: 1024\r\nContent-Type: text/plain\r\n\r\n"), body...)
}

// readEnd reads until the end of what was read is end. It does not allocate memory.
func readEnd(c net.Conn, buf, end []byte) error {
	n := 0
	for !bytes.HasSuffix(buf[:n], end) {
		more, err := c.Read(buf[n:])
		if err != nil {
			return err
		}
		n += more
	}
	return nil
}

// startRawUpstream starts a server that replies to each request, which ends with end.
func startRawUpstream(t *testing.T, end []byte) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve := func(c net.Conn) {
		defer c.Close()
		buf := make([]byte, 32<<10)
		for readEnd(c, buf, end) == nil {
			if _, err := io.WriteString(c, okReply); err != nil {
				return
			}
		}
	}
	testenv.AcceptEach(t, l, serve)
	return l.Addr().String()
}

// A short POST allocates little.
func TestAllocationsOfAPost(t *testing.T) {
	if testenv.RaceDetector {
		t.Skip("the race detector allocates, too")
	}
	body := text[:1024]
	g := start(t, startRawUpstream(t, body[1000:]), nil, requestsTo(t, "snappy"), repliesTo(t, "zstd"))
	c, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	request, buf := rawPost(body), make([]byte, 4<<10)
	call := func() {
		if _, err := c.Write(request); err != nil {
			t.Fatal(err)
		}
		if err := readEnd(c, buf, []byte("\r\n\r\nok")); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		call()
	}
	if n := testing.AllocsPerRun(500, call); n > postAllocs {
		t.Errorf("%v allocations a request, want %d at most", n, postAllocs)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 500 {
		call()
	}
	runtime.ReadMemStats(&after)
	if n := int(after.TotalAlloc-before.TotalAlloc) / 500; n > postBytes {
		t.Errorf("%d bytes a request, want %d at most", n, postBytes)
	}
}
