package grpc

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/http2"
	"github.com/cinch-layer/cinch/internal/gateway/peer/link"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/testenv"
)

// watched returns Faults, and a check that exactly one panic was counted and logged with its stack.
func watched(t *testing.T) (f http2.Faults, once func()) {
	log := &testenv.Log{}
	f = http2.Faults{Log: slog.New(slog.NewTextHandler(log, nil)), Stats: gateway.NewStats("test", "grpc")}
	return f, func() {
		t.Helper()
		testenv.Eventually(t, "a panic is logged", func() bool { return log.Count("stack=") > 0 })
		if n := f.Stats.Snapshot().Errors["panic"]; n != 1 || log.Count("stack=") != 1 {
			t.Fatalf("%d panics counted, %d stacks logged; want one of each:\n%s", n, log.Count("stack="), log.String())
		}
	}
}

// panickyBody panics in the first read that has room for bytes.
type panickyBody struct{}

func (panickyBody) Read(p []byte) (int, error) {
	if len(p) > 0 {
		panic("while decoding")
	}
	return 0, nil
}

// A panic while the client's body is read is an error of the call.
func TestPanicBelowAReplayBuffer(t *testing.T) {
	f, once := watched(t)
	var memory replayMemory
	var replay replayBuffer
	replay.begin(panickyBody{}, 1000, &memory)
	replay.faults = f
	from := replay.reader()
	if _, err := from.Read(make([]byte, 100)); !errors.Is(err, gateway.ErrPanicked) {
		t.Errorf("the reader got %v", err)
	}
	replay.close()
	if n := memory.inUse.Load(); n != 0 {
		t.Errorf("%d bytes are held", n)
	}
	once()
}

// A question that panics is treated like one that failed: calls that wait for it go on, and it is repeated
// after a pause.
func TestPanicOfAnInquiry(t *testing.T) {
	f, once := watched(t)
	q := &encodingProbe{
		capabilities: &serverCapabilities{linkSupport: &link.Support{}}, codecs: grpccodec.NewSet(grpccodec.Options{}), alive: t.Context(), probeWait: time.Hour, faults: f,
		ask: func(context.Context, gatewayCall) (*gatewayReply, error) { panic("while asking") },
	}
	q.addEncodings([]string{"zstd"}, "test")
	q.await(t.Context())
	once()
	testenv.Eventually(t, "a pause", func() bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		return q.running == nil && !q.notBefore.IsZero()
	})
}

// A panic of the goroutine that watches an upstream connection closes the connection, as a dead server would
// no longer be noticed.
func TestPanicOfPings(t *testing.T) {
	f, once := watched(t)
	near, far := net.Pipe()
	defer far.Close()
	go func() { _, _ = io.Copy(io.Discard, far) }()
	d := &dialer{log: f.Log, clientConfig: http2.ClientConfig{Faults: f}} // its ticker panics
	h := &upstreamConn{Pooled: http2.Pooled{Conn: http2.NewClientConn(near, http2.ClientConfig{Window: 64 << 10, ConnWindow: 64 << 10, MaxHeader: 4096})}}
	d.watch(h)
	<-h.Conn.Done()
	once()
}

// If compressing a message panics, copies that wait for it go on, and the cache removes its entry in time.
func TestPanicOfACachedMessage(t *testing.T) {
	c := NewCache(nil) // compressing panics
	message, setting := payload(minCachedBytes), codec.Setting{Codec: codec.Zstd, Level: 1}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		_, _ = c.compress(t.Context(), message, setting)
	}()
	if e, found := c.lookup(cacheKey{sha256.Sum256(message), setting}); !found || !e.isDone() || !errors.Is(e.err, gateway.ErrPanicked) {
		t.Error("copies wait until their calls end, or get another error")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trim(time.Now().Add(2 * cacheTime)); len(c.order)+len(c.entries) != 0 {
		t.Error("the entry stays, and all behind it")
	}
}

type panickyCall struct{}

func (panickyCall) progress() uint64 { panic("while draining") }
func (panickyCall) expire()          {}

// A panic in a drain closes the connection.
func TestPanicOfADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, once := watched(t)
		near, far := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, far) }()
		s := &session{faults: f, done: make(chan struct{}), server: http2.NewServer(near, http2.ServerConfig{Handler: http.NotFoundHandler(), MaxStreams: 1, MaxHeader: 4096})}
		s.calls.begin(panickyCall{})
		s.drain(time.Hour, nil)
		if err := s.server.Serve(); err == nil {
			t.Error("the connection continues")
		}
		if !s.calls.mu.TryLock() {
			t.Error("the calls are locked")
		}
		_ = far.Close()
		once()
	})
}

// A panic in compressing a call's messages ends that call, with a status that is not retried, and frees its
// memory. Calls of the same connection and of other clients go on.
func TestPanicWhileCompressing(t *testing.T) {
	f, once := watched(t)
	g := startGateway(t, "grpc://"+startServer(t, echo), func(c *Config) {
		c.Log, c.Stats = f.Log, f.Stats
		c.UpstreamReads = []string{"zstd"}
	})
	rules, err := policy.NewMessages([]policy.MessageRule{{Name: "all", Setting: codec.Setting{Codec: codec.Zstd, Level: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	g.SetPolicy(rules)
	bad, good := connect(t, g.addr), connect(t, g.addr)
	message := payload(5000)
	if _, err := unary(within(t), good, "Unary", message); err != nil {
		t.Fatal(err)
	}
	works := g.shared.compressor
	g.shared.compressor = nil
	_, err = unary(within(t), bad, "Unary", message)
	if c := status.Code(err); c != codes.Internal {
		t.Errorf("the call ended with %v", err)
	}
	once()
	g.shared.compressor = works
	for _, conn := range []*grpc.ClientConn{bad, good} {
		if _, err := unary(within(t), conn, "Unary", message); err != nil {
			t.Error(err)
		}
	}
	testenv.Eventually(t, "nothing is held", func() bool {
		active := int64(0)
		for _, h := range g.pool.Conns() {
			active += h.Active()
		}
		return active == 0 && g.cfg.Requests.InUse() == 0 && g.cfg.Replies.InUse() == 0 && g.shared.replays.inUse.Load() == 0
	})
}
