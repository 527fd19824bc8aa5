package http2

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	xhttp2 "golang.org/x/net/http2"
)

// secretRecorder is a link that records what enters its history.
type secretRecorder struct {
	net.Conn
	open, secret bytes.Buffer
}

func (r *secretRecorder) Write(p []byte) (int, error)       { return r.open.Write(p) }
func (r *secretRecorder) WriteSecret(p []byte) (int, error) { return r.secret.Write(p) }

// Header blocks stay out of the history, and nothing else does.
func TestHeadersAreSecret(t *testing.T) {
	var all bytes.Buffer
	f := xhttp2.NewFramer(&all, nil)
	_, _ = io.WriteString(&all, xhttp2.ClientPreface)
	_ = f.WriteSettings()
	preface := all.Len()
	_ = f.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte("secret 1")})
	_ = f.WriteContinuation(1, true, []byte("secret 2"))
	_ = f.WritePushPromise(xhttp2.PushPromiseParam{StreamID: 1, PromiseID: 2, BlockFragment: []byte("secret 3")})
	_ = f.WriteData(1, true, []byte("a body"))
	_ = f.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 3, BlockFragment: []byte("secret 4"), EndHeaders: true})
	for name, cut := range map[string]int{"one write": 0, "two writes": preface} {
		r := &secretRecorder{}
		c := KeepSecrets(r)
		for _, p := range [][]byte{all.Bytes()[:cut], all.Bytes()[cut:]} {
			if n, err := c.Write(p); n != len(p) || err != nil {
				t.Fatal(name, n, err)
			}
		}
		if got := r.open.String(); strings.Contains(got, "secret") || !strings.Contains(got, "a body") || !strings.HasPrefix(got, xhttp2.ClientPreface) {
			t.Errorf("%s: the history has %q", name, got)
		}
		if n := strings.Count(r.secret.String(), "secret"); n != 4 || r.open.Len()+r.secret.Len() != all.Len() {
			t.Errorf("%s: %d of 4 header blocks, %d of %d bytes", name, n, r.open.Len()+r.secret.Len(), all.Len())
		}
	}
}

// Marked bodies stay out of the history, and the mark is not sent.
func TestMarkedBodiesAreSecret(t *testing.T) {
	var all bytes.Buffer
	f := xhttp2.NewFramer(&all, nil)
	for _, id := range []uint32{1, 3} {
		_ = f.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: id, BlockFragment: []byte("fields"), EndHeaders: true})
		for _, end := range []bool{false, true} {
			begin := all.Len()
			if _ = f.WriteData(id, end, fmt.Appendf(nil, "body %d", id)); id == 1 {
				all.Bytes()[begin+4] |= byte(flagMarked)
			}
		}
	}
	r := &secretRecorder{}
	c := KeepSecrets(r)
	_, _ = c.Write(all.Bytes())
	if got := r.open.String(); strings.Contains(got, "body 1") || strings.Count(got, "body 3") != 2 {
		t.Errorf("the history has %q", got)
	}
	read := xhttp2.NewFramer(nil, &r.secret)
	for {
		frame, err := read.ReadFrame()
		if err != nil {
			break
		}
		if frame.Header().Flags&flagMarked != 0 {
			t.Errorf("the mark is sent: %v", frame)
		}
	}
}
