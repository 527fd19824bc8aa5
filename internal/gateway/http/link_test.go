package http

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	xhttp2 "golang.org/x/net/http2"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/cinch-layer/cinch/internal/policy"
)

// secretRecorder is a link that records what enters its history.
type secretRecorder struct {
	net.Conn
	open, secret bytes.Buffer
}

func (r *secretRecorder) Write(p []byte) (int, error)       { return r.open.Write(p) }
func (r *secretRecorder) WriteSecret(p []byte) (int, error) { return r.secret.Write(p) }

// Header blocks stay out of the history, and nothing else does.
func TestHeadersApart(t *testing.T) {
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
		c := &headersApart{secretWriter: r}
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

// The body of a stream that is kept out of the history does not enter it, up to its end and no further.
func TestBodiesApart(t *testing.T) {
	var all bytes.Buffer
	f := xhttp2.NewFramer(&all, nil)
	for _, id := range []uint32{1, 3} {
		_ = f.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: id, BlockFragment: []byte("fields"), EndHeaders: true})
		_ = f.WriteData(id, false, fmt.Appendf(nil, "body %d, ", id))
		_ = f.WriteData(id, true, fmt.Appendf(nil, "end %d.", id))
	}
	r := &secretRecorder{}
	c := &headersApart{secretWriter: r, begun: true}
	c.keepOut(1)
	c.keepOut(5)
	_, _ = c.Write(all.Bytes())
	if got := r.open.String(); strings.Contains(got, "body 1") || strings.Contains(got, "end 1") || !strings.Contains(got, "body 3") {
		t.Errorf("the history has %q", got)
	}
	all.Reset()
	_ = f.WriteRSTStream(5, xhttp2.ErrCodeCancel)
	if _, _ = c.Write(all.Bytes()); len(c.bodies) > 0 {
		t.Errorf("%d streams are remembered after their ends", len(c.bodies))
	}
}

// series returns a message of Protocol Buffers like those of Prometheus' remote write: series with labels and one value each.
func series(round int) (b []byte) {
	for i := range 200 {
		one := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), fmt.Appendf(nil, "pod-%d-of-some-deployment", i))
		one = protowire.AppendFixed64(protowire.AppendTag(one, 2, protowire.Fixed64Type), uint64(1000*i+round))
		b = protowire.AppendBytes(protowire.AppendTag(b, 1, protowire.BytesType), one)
	}
	return b
}

// Messages of Protocol Buffers go in lanes, both ways: a message that differs from the last one in its numbers takes a few hundred
// bytes.
func TestMessagesInLanes(t *testing.T) {
	near, far := startPair(t, startUpstream(t, http.HandlerFunc(echo)), func(near, far *Config) {})
	c := client(t)
	near.untilCarried(c)
	exchange := func(round int) {
		body := series(round)
		if _, got := send(t, c, http.MethodPost, near.url, body, "Content-Type", "application/x-protobuf"); !bytes.Equal(got, body) {
			t.Errorf("round %d: %d of %d bytes", round, len(got), len(body))
		}
	}
	for round := range 5 { // lanes are opened, and learn
		exchange(round)
	}
	before := near.stats.Snapshot().Wire
	for round := 5; round < 15; round++ {
		exchange(round)
	}
	after := near.stats.Snapshot().Wire
	sent, received := after.Upstream.SentBytes-before.Upstream.SentBytes, after.Upstream.ReceivedBytes-before.Upstream.ReceivedBytes
	t.Logf("%d bytes for each of 10 requests of %d, %d for each reply", sent/10, len(series(0)), received/10)
	if sent > 10*1500 || received > 10*1500 {
		t.Error("that is no session")
	}
	for name, r := range map[string]*rig{"near": near, "far": far} {
		if errors := r.stats.Snapshot().Errors; len(errors) > 0 {
			t.Errorf("%s: %v", name, errors)
		}
	}
}

// A body of unknown length goes over the link while it comes, compressed: its first bytes arrive before its last are sent.
func TestStreamOverLink(t *testing.T) {
	arrived := make(chan int64, 1)
	first := make(chan struct{})
	near, _ := startPair(t, startUpstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength >= 0 { // while the link is being opened
			_, _ = io.Copy(io.Discard, r.Body)
			return
		}
		n, _ := io.ReadFull(r.Body, make([]byte, 1000))
		close(first)
		rest, _ := io.Copy(io.Discard, r.Body)
		arrived <- int64(n) + rest
	})), nil)
	c := client(t)
	near.untilCarried(c)
	before := near.stats.Snapshot().Wire.Upstream.SentBytes
	in, out := io.Pipe()
	const size = 8 << 20
	go func() {
		_, _ = out.Write(text[:2000])
		<-first
		for sent := 2000; sent < size; sent += len(text) {
			_, _ = out.Write(text[:min(len(text), size-sent)])
		}
		_ = out.Close()
	}()
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, near.url, in)
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if n := <-arrived; n != size || resp.StatusCode != 200 {
		t.Errorf("%s, %d of %d bytes", resp.Status, n, size)
	}
	if n := near.stats.Snapshot().Wire.Upstream.SentBytes - before; n > size/100 {
		t.Errorf("%d bytes were sent for %d", n, size)
	}
}

// Without a link, as with a gateway that has no peers, nothing that gateways say to each other leaves them.
func TestNoLinkWithoutPeers(t *testing.T) {
	handler, got := recorder(echo)
	far := start(t, startUpstream(t, handler), nil, policy.MessageRule{Auto: true})
	near := start(t, strings.TrimPrefix(far.url, "http://"), func(c *Config) { c.Link = Shared }, policy.MessageRule{Auto: true})
	c := client(t)
	for range 5 {
		resp, _ := send(t, c, http.MethodPost, near.url, text)
		for name := range resp.Header {
			if strings.Contains(name, "Cinch") && !strings.HasPrefix(name, "X-Got-") {
				t.Errorf("the client sees %s", name)
			}
		}
		<-got
	}
	if near.common.links.open.Load() > 0 {
		t.Error("there is a link")
	}
}
