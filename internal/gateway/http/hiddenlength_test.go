package http

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A Content-Length is detected wherever reads split it, and whatever its case.
func TestHeads(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	c := &lengthCounter{Conn: here}
	go func() {
		for piece := range strings.SplitSeq("POST / HTTP/1.1\r\nConT|ent-L|ength|: 5\r\n\r\nhelloPOST / HTTP/1.1\r\ncontent-length:5\r\nX: content-len|", "|") {
			_, _ = io.WriteString(there, piece)
		}
		_ = there.Close()
	}()
	for {
		if _, err := c.Read(make([]byte, maxHeadRead)); err != nil {
			break
		}
	}
	if c.found != 2 {
		t.Errorf("%d", c.found)
	}
}

// A chunked request that arrives together with another one with a Content-Length counts as one without, and
// does not end the connection.
func TestChunkedBeforeAnother(t *testing.T) {
	handler, _ := recorder(nil)
	g := start(t, startUpstream(t, handler), nil)
	for _, line := range []string{"\r\n", "\n"} {
		n, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_ = n.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = io.WriteString(n, strings.ReplaceAll(chunkedAndAnother, "|", line))
		from := bufio.NewReader(n)
		for i := range 2 {
			resp, err := http.ReadResponse(from, nil)
			if err != nil || resp.Close {
				t.Fatalf("%q, reply %d: %v, %v", line, i, resp, err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
		}
		_ = n.Close()
	}
}

const (
	chunkedHead       = "POST / HTTP/1.1|Host: x|X: \xff\xc8\xba\xff|Transfer-Encoding: chunked||"
	chunkedAndAnother = chunkedHead + "5\r\nhello\r\n0\r\n\r\nPOST / HTTP/1.1|Host: x|Content-Length: 5||hello"
)

// Wherever reads split a chunked request and another one, a Read ends at the end of the first one's head, and
// nothing is lost or counted twice.
func TestReadsEndWithChunkedHeads(t *testing.T) {
	for _, line := range []string{"\r\n", "\n"} {
		all, end := strings.ReplaceAll(chunkedAndAnother, "|", line), len(strings.ReplaceAll(chunkedHead, "|", line))
		for cut := range len(all) {
			here, there := net.Pipe()
			go func() {
				_, _ = io.WriteString(there, all[:cut])
				_, _ = io.WriteString(there, all[cut:])
				_ = there.Close()
			}()
			c := &lengthCounter{Conn: here}
			var got []byte
			ended := false
			for p := make([]byte, maxHeadRead); ; {
				n, err := c.Read(p)
				if err != nil {
					break
				}
				got = append(got, p[:n]...)
				ended = ended || len(got) == end && c.found == 0
			}
			if string(got) != all || !ended || c.found != 1 {
				t.Errorf("%q, cut at %d: %q, read up to the head's end: %v, %d lengths", line, cut, got, ended, c.found)
			}
		}
	}
}
