package http2

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	xhttp2 "golang.org/x/net/http2"
)

// slowClient is a client's end of a connection in a synctest bubble. Its server runs no handlers.
type slowClient struct {
	t *testing.T
	net.Conn
	fr     *xhttp2.Framer
	server *Server
	goAway xhttp2.ErrCode // that the server has sent
	served chan error     // what Serve returned
	ended  chan struct{}  // closed when the server has closed the connection
}

func startSlow(t *testing.T, greet bool) *slowClient {
	near, far := net.Pipe()
	c := &slowClient{t: t, Conn: near, fr: xhttp2.NewFramer(near, near), goAway: xhttp2.ErrCodeNo, served: make(chan error, 1), ended: make(chan struct{})}
	s := NewServer(far, ServerConfig{
		Handler: http.HandlerFunc(echo), MaxStreams: 10, Window: testWindow, ConnWindow: testWindow, MaxHeader: testHeader,
	})
	c.server = s
	s.running = s.cfg.MaxStreams // so that no handler begins: workers outlive a bubble
	go func() { c.served <- s.Serve() }()
	go func() {
		defer close(c.ended)
		for {
			f, err := c.fr.ReadFrame()
			if err != nil {
				return
			}
			if g, ok := f.(*xhttp2.GoAwayFrame); ok {
				c.goAway = g.ErrCode
			}
		}
	}()
	t.Cleanup(func() { _ = near.Close() })
	if greet {
		c.write([]byte(xhttp2.ClientPreface))
		if err := c.fr.WriteSettings(); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func (c *slowClient) write(b []byte) {
	c.t.Helper()
	if _, err := c.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

// isOpen reports whether the server still has the connection open.
func (c *slowClient) isOpen() bool {
	synctest.Wait()
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// head returns the HEADERS frame of a POST. END_HEADERS is set if it is whole.
func head(whole bool) []byte {
	block := []byte{0x83, 0x86, 0x84, 0x41, 0x01, 'x'} // POST, http, /, :authority x
	frame := []byte{0, 0, byte(len(block)), byte(xhttp2.FrameHeaders), 0, 0, 0, 0, 1}
	if whole {
		frame[4] = byte(xhttp2.FlagHeadersEndHeaders)
	}
	return append(frame, block...)
}

// A header block must be complete within ten seconds of its first byte, however it is cut.
func TestSlowHeadersEndTheConnection(t *testing.T) {
	for name, pieces := range map[string][][]byte{
		"half a header of a frame": {head(true)[:5]},
		"half a frame":             {head(true)[:12]},
		"no CONTINUATION":          {head(false)},
		"half a CONTINUATION":      {head(false), {0, 0, 9, byte(xhttp2.FrameContinuation), 0, 0, 0, 0, 1, 0}},
		"half a PING":              {{0, 0, 8, byte(xhttp2.FramePing), 0, 0, 0, 0, 0, 1}},
		"a byte every two seconds": {{0}, {0}, {6}, {1}, {4}, {0}, {0}, {0}, {1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := startSlow(t, true)
				synctest.Wait()
				time.Sleep(time.Hour) // an idle connection has no limit here
				if !c.isOpen() {
					t.Fatal("an idle connection is closed")
				}
				began := time.Now()
				for _, p := range pieces {
					if _, err := c.Write(p); err != nil {
						break
					}
					time.Sleep(2 * time.Second)
				}
				time.Sleep(headerTimeout - time.Nanosecond - time.Since(began))
				if time.Since(began) < headerTimeout && !c.isOpen() {
					t.Fatal("closed too early")
				}
				time.Sleep(2 * time.Second)
				if c.isOpen() {
					t.Fatal("still open")
				}
				var broke violation
				if err := <-c.served; !errors.As(err, &broke) || c.goAway != xhttp2.ErrCodeEnhanceYourCalm {
					t.Errorf("Serve: %v, GOAWAY with %v", err, c.goAway)
				}
			})
		})
	}
}

// The preface and SETTINGS must be complete within ten seconds, too.
func TestSlowPrefaceEndsTheConnection(t *testing.T) {
	for _, sent := range []string{"", xhttp2.ClientPreface[:9], xhttp2.ClientPreface, xhttp2.ClientPreface + "\x00\x00\x06\x04"} {
		synctest.Test(t, func(t *testing.T) {
			c := startSlow(t, false)
			if sent != "" {
				c.write([]byte(sent))
			}
			time.Sleep(prefaceTimeout - time.Nanosecond)
			if !c.isOpen() {
				t.Errorf("after %q: closed too early", sent)
			}
			time.Sleep(2 * time.Second)
			if c.isOpen() {
				t.Errorf("after %q: still open", sent)
			}
			<-c.served
		})
	}
}

// There is no limit for anything outside a header block: a body, even within a DATA frame, and the next
// request. A block that was complete in time leaves no limit behind.
func TestSlowBodiesGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startSlow(t, true)
		c.write(head(false))
		time.Sleep(headerTimeout - time.Second)
		c.write([]byte{0, 0, 0, byte(xhttp2.FrameContinuation), byte(xhttp2.FlagContinuationEndHeaders), 0, 0, 0, 1})
		time.Sleep(time.Hour)
		c.write([]byte{0, 0, 4, byte(xhttp2.FrameData), 0, 0, 0, 0, 1, 'b', 'o'})
		time.Sleep(time.Hour)
		if !c.isOpen() {
			t.Fatal("closed in a body")
		}
		c.write([]byte("dy"))
		c.write([]byte{0, 0, 4, byte(xhttp2.FrameData)}) // the header of the frame, in time
		time.Sleep(headerTimeout - time.Second)
		c.write([]byte{0, 0, 0, 0, 1, 'b', 'o'})
		time.Sleep(time.Hour)
		if !c.isOpen() {
			t.Fatal("closed in a body, for a header that came in two pieces")
		}
		c.write([]byte("dy"))
		c.write([]byte{0, 0, 0, byte(xhttp2.FrameData), byte(xhttp2.FlagDataEndStream), 0, 0, 0, 1})
		time.Sleep(time.Hour)
		if !c.isOpen() {
			t.Fatal("closed between requests")
		}
		_ = c.Close()
		if err := <-c.served; err != nil && !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	})
}

// A read deadline limits the peer: it does not expire while there are unread bytes.
func TestReadDeadlineIsForThePeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startSlow(t, true)
		c.write(head(true))
		c.write([]byte{0, 0, 4, byte(xhttp2.FrameData), 0, 0, 0, 0, 1, 'b', 'o', 'd', 'y'})
		synctest.Wait()
		c.server.mu.Lock()
		body := c.server.streams[1].user.(*serverStream)
		c.server.mu.Unlock()
		body.setReadDeadline(time.Now().Add(time.Minute))
		time.Sleep(time.Hour) // while the upstream accepts nothing
		b := make([]byte, 4)
		read := func() error {
			body.setReadDeadline(time.Now().Add(time.Minute))
			_, err := io.ReadFull(body, b)
			return err
		}
		if err := read(); err != nil {
			t.Fatal(err)
		}
		c.write([]byte{0, 0, 4, byte(xhttp2.FrameData), 0, 0, 0, 0, 1, 'm', 'o', 'r', 'e'})
		if err := read(); err != nil || string(b) != "more" {
			t.Errorf("%q: %v", b, err)
		}
		c.write([]byte{0, 0, 4, byte(xhttp2.FrameData), 0, 0, 0, 0, 1, 'l', 'a', 's', 't'})
		synctest.Wait()
		time.Sleep(time.Hour)
		if _, err := io.ReadFull(body, b); err != nil { // no other deadline is set
			t.Error(err)
		}
		if n, err := body.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a peer that sends nothing: %d bytes, %v", n, err)
		}
		_ = c.Close()
		<-c.served
	})
}
