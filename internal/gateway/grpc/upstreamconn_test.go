package grpc

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	xhttp2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/cinch-layer/cinch/internal/gateway/http2"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/rig/rawgrpc"
	"github.com/cinch-layer/cinch/test/testenv"
)

// An upstream that ends its connections again and again, like servers with a maximum connection age, fails no
// calls.
func TestUpstreamGoesAway(t *testing.T) {
	t.Parallel()
	seen := &recorder{}
	server := startServer(t, echo, grpc.StatsHandler(seen), grpc.KeepaliveParams(keepalive.ServerParameters{
		MaxConnectionAge: 100 * time.Millisecond, MaxConnectionAgeGrace: time.Minute,
	}))
	g := startGateway(t, "grpc://"+server, nil)
	g.SetPolicy(rulesOf(t, policy.MessageRule{Setting: set(t, "zstd-1"), MinSize: 64}))
	c := connect(t, g.addr)
	for seen.conns.Load() < 8 {
		mustEcho(t, c, payload(20_000))
	}
}

// refusing starts a server that calls answer for each complete request, with its stream and the number of requests so
// far on all connections, which is also in streams. It sends the frames that answer writes together, and closes the
// connection if answer returns false.
func refusing(t *testing.T, answer func(fr *xhttp2.Framer, id uint32, n int64) bool) (addr string, streams *atomic.Int64) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	streams = new(atomic.Int64)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go refuseOn(c, streams, answer)
		}
	}()
	return l.Addr().String(), streams
}

func refuseOn(c net.Conn, streams *atomic.Int64, answer func(*xhttp2.Framer, uint32, int64) bool) {
	defer c.Close()
	_, _ = io.ReadFull(c, make([]byte, len(xhttp2.ClientPreface)))
	var out bytes.Buffer
	fr := xhttp2.NewFramer(&out, c)
	_ = fr.WriteSettings()
	defer out.WriteTo(c)
	for {
		_, _ = out.WriteTo(c) // frames of one answer are sent together
		f, err := fr.ReadFrame()
		if err != nil {
			return
		}
		switch f := f.(type) {
		case *xhttp2.SettingsFrame:
			if !f.IsAck() {
				_ = fr.WriteSettingsAck()
			}
		case *xhttp2.PingFrame:
			if !f.IsAck() {
				_ = fr.WritePing(true, f.Data)
			}
		case *xhttp2.DataFrame:
			if !f.StreamEnded() {
				continue
			}
			if !answer(fr, f.StreamID, streams.Add(1)) {
				return
			}
		}
	}
}

func answerOK(fr *xhttp2.Framer, id uint32) {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for _, h := range [][2]string{{":status", "200"}, {"content-type", "application/grpc"}} {
		_ = e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
	}
	_ = fr.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: id, BlockFragment: b.Bytes(), EndHeaders: true})
	_ = fr.WriteData(id, false, frame(false, []byte("ok")))
	b.Reset()
	_ = e.WriteField(hpack.HeaderField{Name: "grpc-status", Value: "0"})
	_ = fr.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: id, BlockFragment: b.Bytes(), EndHeaders: true, EndStream: true})
}

// A request that the server has not begun is sent again, with its whole body.
func TestRefusedStreamsAreRetried(t *testing.T) {
	for name, refuse := range map[string]func(*xhttp2.Framer, uint32) bool{
		"REFUSED_STREAM": func(fr *xhttp2.Framer, id uint32) bool {
			return fr.WriteRSTStream(id, xhttp2.ErrCodeRefusedStream) == nil
		},
		"GOAWAY": func(fr *xhttp2.Framer, id uint32) bool { return fr.WriteGoAway(id-2, xhttp2.ErrCodeNo, nil) == nil },
	} {
		t.Run(name, func(t *testing.T) {
			addr, streams := refusing(t, func(fr *xhttp2.Framer, id uint32, n int64) bool {
				if n == 2 {
					return refuse(fr, id)
				}
				answerOK(fr, id)
				return true
			})
			g := startGateway(t, "grpc://"+addr, nil)
			c := connect(t, g.addr, grpc.WithDisableRetry())
			for range 3 {
				if out, err := unary(within(t), c, "Unary", payload(3000)); err != nil || string(out) != "ok" {
					t.Errorf("%q, %v", out, err)
				}
			}
			if n := streams.Load(); n != 4 {
				t.Errorf("%d streams", n)
			}
		})
	}
}

// Attempts on connections that end before anything is sent do not count towards maxAttempts.
func TestUnusableConnectionsAreNoAttempts(t *testing.T) {
	c := &call{r: httptest.NewRequest(http.MethodPost, "/s/m", nil)}
	tries := func(err error) (n int) {
		for again := true; again; n++ {
			c.attempts++
			again = c.shouldRetry(&attempt{}, err)
		}
		return n
	}
	for range maxUnusable - 1 {
		c.attempts++
		if !c.shouldRetry(&attempt{}, http2.ErrUnusable) {
			t.Fatalf("given up after %d attempts", c.attempts)
		}
	}
	if n := tries(http2.ErrGoAway); n != maxAttempts {
		t.Errorf("%d attempts on connections that go away", n)
	}
	if n := tries(http2.ErrUnusable); n != 1 {
		t.Errorf("%d more attempts on unusable connections", n)
	}
}

// A reset that is not a refusal reaches the client as the status that gRPC defines for it.
func TestResetsBecomeStatuses(t *testing.T) {
	for reset, want := range map[xhttp2.ErrCode]codes.Code{
		xhttp2.ErrCodeCancel:             codes.Canceled,
		xhttp2.ErrCodeInternal:           codes.Internal,
		xhttp2.ErrCodeEnhanceYourCalm:    codes.ResourceExhausted,
		xhttp2.ErrCodeInadequateSecurity: codes.PermissionDenied,
		xhttp2.ErrCodeRefusedStream:      codes.Unavailable, // refused at each attempt
	} {
		addr, streams := refusing(t, func(fr *xhttp2.Framer, id uint32, _ int64) bool {
			return fr.WriteRSTStream(id, reset) == nil
		})
		g := startGateway(t, "grpc://"+addr, nil)
		_, err := unary(within(t), connect(t, g.addr, grpc.WithDisableRetry()), "Unary", payload(100))
		if status.Code(err) != want {
			t.Errorf("%v: got %v", reset, err)
		}
		if n := streams.Load(); reset != xhttp2.ErrCodeRefusedStream && n != 1 {
			t.Errorf("%v: tried %d times", reset, n)
		}
	}
}

// Connections to the upstream are shared, and more are opened for many calls, up to a limit.
func TestPoolGrowsAndIsBounded(t *testing.T) {
	server := startServer(t, echo)
	g := startGateway(t, "grpc://"+server, func(c *Config) { c.UpstreamConns = 3 })
	c := connect(t, g.addr)
	for range 10 * http2.SpreadStreams {
		s := stream(within(t), t, c, "Both")
		exchange(t, s)
	}
	if n := len(g.pool.Conns()); n != 3 {
		t.Errorf("%d connections", n)
	}
	for _, h := range g.pool.Conns() {
		if h.Active() < http2.SpreadStreams {
			t.Errorf("one has %d calls", h.Active())
		}
	}
}

// An upstream that dies ends the calls that wait for it, even if their clients send nothing.
func TestUpstreamDies(t *testing.T) {
	s := grpc.NewServer(grpc.UnknownServiceHandler(echo), grpc.ForceServerCodecV2(rawgrpc.Codec{}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(l) }()
	g := startGateway(t, "grpc://"+l.Addr().String(), nil)
	var calls []grpc.ClientStream
	for _, rule := range []string{"raw", "zstd-1"} {
		g.SetPolicy(rulesOf(t, policy.MessageRule{Setting: set(t, rule)}))
		for range 3 {
			c := stream(within(t), t, connect(t, g.addr), "Both")
			exchange(t, c)
			calls = append(calls, c)
		}
	}
	s.Stop()
	for _, c := range calls {
		var out []byte
		if err := c.RecvMsg(&out); status.Code(err) != codes.Unavailable {
			t.Errorf("got %v", err)
		}
	}
	if _, err := unary(within(t), connect(t, g.addr), "Unary", nil); status.Code(err) != codes.Unavailable {
		t.Errorf("without a server: %v", err)
	}
}

// Calls on a connection that was given up end with UNAVAILABLE, and new calls use a new connection.
func TestGivenUpConnection(t *testing.T) {
	g := startGateway(t, "grpc://"+startServer(t, echo), nil)
	c := connect(t, g.addr, grpc.WithDisableRetry())
	s := stream(within(t), t, c, "Both")
	exchange(t, s)
	waiting := make(chan error, 1)
	go func() {
		_, err := unary(within(t), c, "Wait", payload(100))
		waiting <- err
	}()
	h := g.pool.Conns()[0]
	testenv.Eventually(t, "both calls wait", func() bool { return h.Active() == 2 })
	h.giveUp()
	if err := <-waiting; status.Code(err) != codes.Unavailable {
		t.Errorf("a call without an answer: %v", err)
	}
	var out []byte
	if err := s.RecvMsg(&out); status.Code(err) != codes.Unavailable || status.Convert(err).Message() != "cinch: "+errSilent.Error() {
		t.Errorf("a stream: %v", err)
	}
	mustEcho(t, c, payload(100))
}

// A server that answers nothing, not even pings, is given up, and later calls get another connection.
func TestSilentDeathIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newGateway(t, "grpc://server:1", nil).pool
		defer p.Close()
		p.dialer.open = func(context.Context) (net.Conn, error) {
			near, far := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, far) }() // like a network that has lost a machine
			return near, nil
		}
		var s http2.Slot
		h, err := p.Take(t.Context(), &s)
		if err != nil {
			t.Fatal(err)
		}
		r := newRequest(t.Context(), t)
		r.Body = nil
		began := time.Now()
		_, err = h.Conn.RoundTrip(r)
		least := defaultPings.silent + defaultPings.answer
		if waited := time.Since(began); h.explain(err) != errSilent || waited < least || waited > least+defaultPings.every {
			t.Errorf("after %v: %v", waited, h.explain(err))
		}
		p.Release(&s)
		if again, err := p.Take(t.Context(), &s); err != nil || again == h {
			t.Errorf("the same connection, %v", err)
		}
		p.Release(&s)
	})
}

// Quiet streams are not taken for dead, and the pings on them are few enough for grpc-go's default rules.
func TestQuietStreamsLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(func(_ any, s grpc.ServerStream) error {
			for range 3 {
				if err := s.SendMsg(&[]byte{'x'}); err != nil {
					return err
				}
				time.Sleep(time.Hour)
			}
			return nil
		})
		behind := testenv.NewPipeListener()
		go func() { _ = server.Serve(behind) }()
		defer server.Stop()
		p := newGateway(t, "grpc://server:1", nil).pool
		defer p.Close()
		counter := &pingCounter{}
		p.dialer.open = func(context.Context) (_ net.Conn, err error) {
			counter.Conn, err = behind.Dial()
			return counter, err
		}
		var s http2.Slot
		h, err := p.Take(t.Context(), &s)
		if err != nil {
			t.Fatal(err)
		}
		call := func() {
			t.Helper()
			r := newRequest(t.Context(), t)
			r.Header.Set("Content-Type", "application/grpc")
			r.Body = nil
			resp, err := h.Conn.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(&countedBody{resp.Body, h})
			if status := resp.Trailer.Get("Grpc-Status"); err != nil || status != "0" || len(got) != 3*6 {
				t.Fatalf("%d bytes, %v, status %q %s", len(got), err, status, resp.Trailer.Get("Grpc-Message"))
			}
		}
		call()
		during := counter.pings.Load()
		if during < 3*(freePings+50/6) {
			t.Errorf("%d pings in three hours", during)
		}
		p.Release(&s)
		time.Sleep(time.Hour)
		if n := counter.pings.Load() - during; n > 0 {
			t.Errorf("%d pings on an idle connection", n)
		}
		if again, err := p.Take(t.Context(), &s); err != nil || again != h {
			t.Fatalf("another connection, %v: the server has ended the first", err)
		}
		call()
		p.Release(&s)
	})
}

// pingCounter counts the pings that are written to a connection.
type pingCounter struct {
	net.Conn
	pings atomic.Int64
}

func (c *pingCounter) Write(b []byte) (int, error) {
	if isPing := []byte{0, 0, 8, byte(xhttp2.FramePing), 0, 0, 0, 0, 0}; bytes.Contains(b, isPing) {
		c.pings.Add(1)
	}
	return c.Conn.Write(b)
}
