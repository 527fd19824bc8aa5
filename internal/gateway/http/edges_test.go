package http

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

// A session that has to drain before it has begun ends at once, for example when Shutdown overtakes a
// handshake.
func TestDrainBeforeRun(t *testing.T) {
	g := start(t, "127.0.0.1:1", nil)
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		s := newSession(g.Gateway, here)
		s.Drain()
		synctest.Wait() // it drains in its own goroutine
		ended := false
		go func() {
			s.Run()
			ended = true
		}()
		synctest.Wait()
		if !ended {
			t.Error("the session continues")
		}
		_ = there.Close()
	})
}

// The refusal of a connection above the limit has a correct Content-Length.
func TestRefusal(t *testing.T) {
	g := start(t, "127.0.0.1:1", nil)
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(g.server.Refusal)), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || !strings.HasSuffix(string(g.server.Refusal), "\r\n\r\n"+string(body)) {
		t.Errorf("%q, %v", body, err)
	}
}

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
	chunkedHead       = "POST / HTTP/1.1|Host: x|Transfer-Encoding: chunked||"
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

// The account waits for a peer until all readers of a body are closed, not only the first, which may be slow
// to close when the body is sent again.
func TestBodySentOnceMoreIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := memory.NewBudget(1 << 20)
		share := budget.Share("test")
		cut := make(chan memory.StallReason, 1)
		b := newWholeBody(t.Context(), strings.NewReader(strings.Repeat("x", 64<<10)), memory.FromClient, share.Client(&net.TCPAddr{}), make(chan struct{}, 1), func(v memory.StallReason) { cut <- v })
		if complete, err := b.read(64 << 10); !complete || err != nil {
			t.Fatal(complete, err)
		}
		first := b.newReader(b.received, nil, memory.FromUpstream)
		second := b.newReader(b.received, nil, memory.FromUpstream)
		_ = first.Close()
		_ = first.Close()
		other := &memory.Account{}
		other.Open(share.Client(&net.UnixAddr{}), nil)
		want := func() {
			for range 100 {
				other.TryAcquire(4 << 20)
				time.Sleep(time.Second)
			}
		}
		want()
		select {
		case v := <-cut:
			if v.Peer != memory.FromUpstream {
				t.Error(v)
			}
		default:
			t.Error("it is not waited for")
		}
		_ = second.Close()
		for len(cut) > 0 {
			<-cut
		}
		want()
		if len(cut) > 0 {
			t.Error("it is waited for without a reader")
		}
		b.close()
		other.Close()
	})
}
