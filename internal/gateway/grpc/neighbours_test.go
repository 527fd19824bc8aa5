package grpc

import (
	"bytes"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	xhttp2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"

	"github.com/cinch-layer/cinch/test/testenv"
)

// wireClient is a client's connection that sends arbitrary frames.
type wireClient struct {
	t  testing.TB
	fr *xhttp2.Framer

	mu       sync.Mutex // for writes
	next     uint32
	encoder  *hpack.Encoder
	block    bytes.Buffer
	statuses chan string // grpc-status of calls that end
}

func newWireClient(t testing.TB, addr string) *wireClient {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	w := &wireClient{t: t, fr: xhttp2.NewFramer(c, c), next: 1, statuses: make(chan string, 10_000)}
	w.encoder = hpack.NewEncoder(&w.block)
	w.fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_, _ = io.WriteString(c, xhttp2.ClientPreface)
	_ = w.fr.WriteSettings()
	go w.read()
	return w
}

func (w *wireClient) read() {
	for {
		f, err := w.fr.ReadFrame()
		if err != nil {
			return
		}
		switch f := f.(type) {
		case *xhttp2.SettingsFrame:
			if !f.IsAck() {
				w.mu.Lock()
				_ = w.fr.WriteSettingsAck()
				w.mu.Unlock()
			}
		case *xhttp2.MetaHeadersFrame:
			for _, field := range f.Fields {
				if field.Name == "grpc-status" {
					w.statuses <- field.Value
				}
			}
		}
	}
}

// begin sends the headers of a call. If body is not nil it also sends a message and the end.
func (w *wireClient) begin(method string, body []byte) (stream uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.block.Reset()
	for _, f := range [][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":authority", "test"},
		{":path", "/test.Echo/" + method},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
	} {
		_ = w.encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	stream = w.next
	w.next += 2
	_ = w.fr.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: stream, BlockFragment: w.block.Bytes(), EndHeaders: true})
	if body != nil {
		_ = w.fr.WriteData(stream, true, frame(false, body))
	}
	return stream
}

func (w *wireClient) reset(stream uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.fr.WriteRSTStream(stream, xhttp2.ErrCodeCancel)
}

// One client's calls that send only headers take all streams to the upstream. Another client's calls go on, and the
// calls that block them end with a status that names the reason.
func TestHeaderOnlyCallsLoseTheirStreams(t *testing.T) {
	t.Parallel()
	server := startServer(t, echo, grpc.MaxConcurrentStreams(10))
	g := startGateway(t, "grpc://"+server, func(c *Config) { c.UpstreamConns = 2 })
	good := connect(t, g.addr)
	if _, err := unary(within(t), good, "Unary", []byte("first")); err != nil {
		t.Fatal(err)
	}
	bad := newWireClient(t, g.addr)
	for range 95 {
		bad.begin("Both", nil)
	}
	testenv.Eventually(t, "all streams are taken", func() bool { return g.callsAtWork() >= 20 })
	for range 10 {
		if _, err := unary(within(t), good, "Unary", []byte("more")); err != nil {
			t.Fatal(err)
		}
	}
	if got := <-bad.statuses; got != "8" {
		t.Errorf("status %s", got)
	}
	if g.stats.Snapshot().Errors["yielded"] == 0 {
		t.Error("not counted")
	}
}

// A quiet stream stays while other clients wait, if its client has no more than its share.
func TestQuietStreamsStay(t *testing.T) {
	t.Parallel()
	server := startServer(t, echo, grpc.MaxConcurrentStreams(10))
	g := startGateway(t, "grpc://"+server, func(c *Config) { c.UpstreamConns = 1 })
	quiet := stream(within(t), t, connect(t, g.addr), "Both")
	exchange(t, quiet)
	bad := newWireClient(t, g.addr)
	for range 50 {
		bad.begin("Both", nil)
	}
	testenv.Eventually(t, "all streams are taken", func() bool { return g.callsAtWork() >= 10 })
	if _, err := unary(within(t), connect(t, g.addr), "Unary", []byte("x")); err != nil {
		t.Fatal(err)
	}
	exchange(t, quiet)
}

// punishing is a server that ends connections on which too many streams are reset, like nghttp2 (and so
// Node), but sooner: after more than 100 (there 1,000), then 33 a second. It answers calls of the method
// Unary after 20 ms.
type punishing struct {
	addr  string
	ended atomic.Int64 // connections that it has ended
	waits atomic.Int64 // calls of the method Wait, which it does not answer
}

func startPunishing(t *testing.T) *punishing {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	p := &punishing{addr: l.Addr().String()}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
	return p
}

func (p *punishing) serve(c net.Conn) {
	defer c.Close()
	_, _ = io.ReadFull(c, make([]byte, len(xhttp2.ClientPreface)))
	var mu sync.Mutex // for writes
	out := &bytes.Buffer{}
	fr := xhttp2.NewFramer(out, c)
	fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	requests := map[uint32][]byte{} // requests to answer
	block := &bytes.Buffer{}
	enc := hpack.NewEncoder(block)
	headers := func(id uint32, end bool, fields ...string) {
		block.Reset()
		for i := 0; i < len(fields); i += 2 {
			_ = enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
		}
		_ = fr.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: end})
	}
	left, at, last := 100.0, time.Now(), uint32(0)
	answer := func(id uint32, message []byte) {
		mu.Lock()
		defer mu.Unlock()
		headers(id, false, ":status", "200", "content-type", "application/grpc")
		_ = fr.WriteData(id, false, message)
		headers(id, true, "grpc-status", "0")
		_, _ = out.WriteTo(c)
	}
	take := func() bool {
		f, err := fr.ReadFrame()
		if err != nil {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		switch f := f.(type) {
		case *xhttp2.SettingsFrame:
			if !f.IsAck() {
				_ = fr.WriteSettingsAck()
			}
		case *xhttp2.PingFrame:
			if !f.IsAck() {
				_ = fr.WritePing(true, f.Data)
			}
		case *xhttp2.MetaHeadersFrame:
			last = f.StreamID
			if f.PseudoValue("path") == "/test.Echo/Unary" {
				requests[f.StreamID] = []byte{}
			} else {
				p.waits.Add(1)
			}
		case *xhttp2.DataFrame:
			_ = fr.WriteWindowUpdate(0, max(1, f.Length))
			id := f.StreamID
			if message := requests[id]; message != nil {
				message = append(message, f.Data()...)
				if requests[id] = message; f.StreamEnded() {
					time.AfterFunc(20*time.Millisecond, func() { answer(id, message) })
				}
			}
		case *xhttp2.RSTStreamFrame:
			left = min(100, left+33*time.Since(at).Seconds()) - 1
			if at = time.Now(); left < 0 {
				p.ended.Add(1)
				_ = fr.WriteGoAway(last, xhttp2.ErrCodeInternal, nil)
				_, _ = out.WriteTo(c)
				return false
			}
		}
		_, _ = out.WriteTo(c)
		return true
	}
	_ = fr.WriteSettings()
	for take() {
	}
}

// Clients that cancel batches of calls are moved to upstream connections of their own; another client's calls go on.
func TestCancelledCallsBreakNoOthers(t *testing.T) {
	t.Parallel()
	const bad, batches = 4, 15 // or more, until the gateway has moved a connection apart
	p := startPunishing(t)
	g := startGateway(t, "grpc://"+p.addr, nil)
	good := connect(t, g.addr, grpc.WithDisableRetry())
	if _, err := unary(within(t), good, "Unary", []byte("first")); err != nil {
		t.Fatal(err)
	}
	guard := within(t)
	apart := func() uint64 { return g.stats.Snapshot().Errors["resets"] }
	var attack sync.WaitGroup
	for range bad {
		w := newWireClient(t, g.addr)
		attack.Go(func() {
			for n := 0; n < batches || apart() == 0 && guard.Err() == nil; n++ {
				var streams []uint32
				enough := p.waits.Load() + 20 // a call that is reset at once isn't forwarded
				if n == 0 {
					enough = bad * 100 // the first are on shared connections, and end together
				}
				for range 100 {
					streams = append(streams, w.begin("Wait", []byte("x")))
				}
				for tries := 0; p.waits.Load() < enough && tries < 100; tries++ {
					time.Sleep(10 * time.Millisecond)
				}
				for _, s := range streams {
					w.reset(s)
				}
			}
		})
	}
	over := make(chan struct{})
	go func() {
		attack.Wait()
		close(over)
	}()
	var calls, failed atomic.Int64
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for {
				calls.Add(1)
				if _, err := unary(within(t), good, "Unary", []byte("more")); err != nil && failed.Add(1) == 1 {
					t.Error(err)
				}
				select {
				case <-over:
					return
				default:
				}
			}
		})
	}
	callers.Wait()
	if failed.Load() > 0 {
		t.Errorf("%d of %d calls have failed", failed.Load(), calls.Load())
	}
	t.Logf("%d calls beside %d or more that were cancelled; the server has seen %d of those, and has ended %d connections",
		calls.Load(), bad*batches*100, p.waits.Load(), p.ended.Load())
	if n := apart(); n == 0 || n > bad {
		t.Errorf("%d connections of clients were set apart", n)
	}
}
