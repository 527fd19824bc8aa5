package grpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	xhttp2 "golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/internal/gateway/peer/lanes"
	"github.com/cinch-layer/cinch/internal/gateway/peer/link"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/testenv"
)

// slowLinks configures links that do not drop idle histories, and that wait for a hello for as long as a call on a
// slow machine may take.
func slowLinks() *link.Config {
	return &link.Config{Setting: zstd1, IdleTimeout: time.Hour, HelloTimeout: time.Hour}
}

// lanedPair starts two gateways with links before a server; change may alter the configuration of the near
// one, or of the far one.
func lanedPair(t *testing.T, server string, mode LinkMode, change func(near, far *Config)) (near, far rig) {
	far = startGateway(t, "grpc://"+server, func(c *Config) {
		c.Links, c.Peers = slowLinks(), true
		change(nil, c)
	})
	rule := policy.MessageRule{Setting: protoRule.Setting, MinSize: 64}
	reply := rule
	reply.Direction = policy.Reply
	far.SetPolicy(rulesOf(t, reply))
	near = startGateway(t, "grpc://"+far.addr, func(c *Config) {
		c.Links, c.Link = slowLinks(), mode
		change(c, nil)
	})
	near.SetPolicy(rulesOf(t, rule))
	return near, far
}

func (r rig) laned() *lanes.Tally { return &r.shared.lanes.Tally }

// otlp is the nth export of some metrics: their names and labels as before, in another order, with other values.
func otlp(n int) (all []byte) {
	r := rand.New(rand.NewPCG(uint64(n), 4))
	for _, i := range r.Perm(40) {
		label := func(name, value string) []byte { return field(field(nil, 1, []byte(name)), 2, []byte(value)) }
		point := binary.LittleEndian.AppendUint64([]byte{2<<3 | 1}, uint64(1_790_000_000_000_000_000+n*15_000_000_000))
		point = binary.AppendUvarint(append(point, 6<<3), uint64(1000*i+n*17+r.IntN(9)))
		for l := range 6 {
			point = field(point, 7, label(fmt.Sprintf("attribute.%d", l), fmt.Sprintf("value-%x", i*(l+7919)*104729)))
		}
		metric := field(nil, 1, fmt.Appendf(nil, "process.runtime.metric.%d", i))
		all = field(all, 2, field(metric, 7, point))
	}
	return all
}

// Messages that resemble earlier ones take at most half of the bytes in lanes that they take as columns, both ways,
// and neither server nor client sees lanes.
func TestLanesSave(t *testing.T) {
	const calls = 60
	took := map[bool]int{}
	for _, without := range []bool{false, true} {
		seen := &recorder{}
		near, far := lanedPair(t, startServer(t, echo, grpc.StatsHandler(seen)), LinkPerClient, func(near, far *Config) {
			for _, c := range []*Config{near, far} {
				if c != nil {
					c.noLanes = without
				}
			}
		})
		c := connect(t, near.addr)
		for n := range calls {
			if n == 10 {
				took[without] -= wireBytes(far)
			}
			mustEcho(t, c, otlp(n))
		}
		took[without] += wireBytes(far)
		if seen.of("") != calls {
			t.Errorf("the server got %s", seen)
		}
		if without {
			continue
		}
		for name, totals := range map[string]*lanes.Tally{"near": near.laned(), "far": far.laned()} {
			if s, o := totals.Sealed.Load(), totals.Opened.Load(); s < calls-5 || o < calls-5 {
				t.Errorf("%s: %d messages sealed, %d opened in lanes", name, s, o)
			}
			if n := totals.Begun.Load(); n > 1 {
				t.Errorf("%s: %d sessions", name, n)
			}
		}
	}
	if took[false]*2 > took[true] {
		t.Errorf("%d bytes with lanes, %d without", took[false], took[true])
	}
}

// Neither server nor client sees the header fields about lanes that gateways send each other. Such fields from servers
// and clients are ignored.
func TestLanesAreBetweenGateways(t *testing.T) {
	var got metadata.MD
	liar := func(srv any, s grpc.ServerStream) error {
		got, _ = metadata.FromIncomingContext(s.Context())
		_ = s.SetHeader(metadata.Pairs("cinch-lanes", "50,50,50,50", "cinch-opened", "7"))
		s.SetTrailer(metadata.Pairs("cinch-opened", "9", "x-trailer", "1"))
		return echoAll(s)
	}
	near, far := lanedPair(t, startServer(t, liar), LinkPerClient, asItIs)
	c := connect(t, near.addr)
	for n := range 20 {
		var header, trailer metadata.MD
		ctx := metadata.AppendToOutgoingContext(within(t), "cinch-lanes", "3,50")
		out, err := unary(ctx, c, "Unary", otlp(n), grpc.Header(&header), grpc.Trailer(&trailer))
		if err != nil || !bytes.Equal(out, otlp(n)) {
			t.Fatal(err)
		}
		if n < 2 {
			continue // the first connection is no link, and has no lanes
		}
		for what, md := range map[string]metadata.MD{"header": header, "trailer": trailer, "request": got} {
			if s := strings.ToLower(fmt.Sprint(md)); strings.Contains(s, "cinch-lanes") || strings.Contains(s, "cinch-opened") {
				t.Errorf("%s: %v", what, md)
			}
		}
		if len(trailer["x-trailer"]) != 1 {
			t.Errorf("trailer %v", trailer)
		}
	}
	if a, b := near.laned(), far.laned(); a.Sealed.Load() < 15 || b.Sealed.Load() < 15 || a.Begun.Load()+b.Begun.Load() != 2 {
		t.Errorf("sealed %d and %d, begun %d and %d", a.Sealed.Load(), b.Sealed.Load(), a.Begun.Load(), b.Begun.Load())
	}
}

// Only a gateway over a link may use the encoding.
func TestLanesEncodingIsPrivate(t *testing.T) {
	near, far := lanedPair(t, startServer(t, echo), LinkPerClient, asItIs)
	for range 3 {
		mustEcho(t, connect(t, near.addr), otlp(1))
	}
	for name, addr := range map[string]string{"near": near.addr, "far": far.addr} {
		c := rawClient(t, addr)
		code, message, _ := post(t, c, "Unary", bytes.NewReader(frame(true, []byte{1, 0, 0x21})), "Grpc-Encoding", lanes.Encoding)
		if code != statusOf(codeUnimplemented) {
			t.Errorf("%s: %v %s", name, code, message)
		}
	}
}

// A client that lists the encoding of lanes as accepted does not get messages in it.
func TestLanesAreNotForClients(t *testing.T) {
	near, _ := lanedPair(t, startServer(t, echo), LinkShared, asItIs)
	for n := range 20 {
		mustEcho(t, connect(t, near.addr), otlp(n))
	}
	c := rawClient(t, near.addr)
	for range 3 {
		code, message, got := post(t, c, "Unary", bytes.NewReader(frame(false, otlp(1))), "Grpc-Accept-Encoding", lanes.Encoding)
		if code != "0" {
			t.Errorf("%v %s, %d bytes", code, message, len(got))
		}
	}
}

// If the gateway on either side is of an older version without lanes, messages are sent in the encodings that it
// knows, and the log of the other says so once.
func TestLanesWithOlderGateways(t *testing.T) {
	for _, oldNear := range []bool{false, true} {
		log := &buffer{}
		near, far := lanedPair(t, startServer(t, echo), LinkPerClient, func(near, far *Config) {
			c := near
			if near == nil {
				c = far
			}
			c.noLanes = (near != nil) == oldNear
			if !c.noLanes {
				c.Log = slog.New(slog.NewTextHandler(log, nil))
			}
		})
		for range 3 {
			c := connect(t, near.addr)
			for n := range 6 {
				mustEcho(t, c, otlp(n))
			}
		}
		wantOpened(t, near, "cinch-proto")
		wantOpened(t, far, "cinch-proto")
		if n := strings.Count(log.String(), "lanes"); n != 1 {
			t.Errorf("the log says %d times that there are no lanes: %s", n, log)
		}
	}
}

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// Lanes belong to a link: if each client has its own links, no two clients share a lane.
func TestLanesOfEachClient(t *testing.T) {
	const clients = 4
	for mode, want := range map[LinkMode]uint64{LinkPerClient: clients, LinkShared: 1} {
		near, _ := lanedPair(t, startServer(t, echo), mode, asItIs)
		var all []*grpc.ClientConn
		for range clients {
			all = append(all, connect(t, near.addr))
		}
		for n := range 8 {
			for _, c := range all {
				mustEcho(t, c, otlp(n))
			}
		}
		if n := near.laned().Begun.Load(); n != want {
			t.Errorf("mode %d: %d sessions of %d clients", mode, n, clients)
		}
	}
}

// With many concurrent calls, interleaved streams and some cancellations, the messages of all other calls arrive as
// they were sent.
func TestLanesInterleave(t *testing.T) {
	t.Parallel()
	near, far := lanedPair(t, startServer(t, echo), LinkShared, func(near, far *Config) {
		if far != nil {
			far.Window = 16 << 10 // messages wait for their readers
		}
	})
	c := connect(t, near.addr)
	for n := range 3 {
		mustEcho(t, c, otlp(n))
	}
	var wg sync.WaitGroup
	var well, cancelled atomic.Int64
	for n := range 16 {
		r := rand.New(rand.NewPCG(uint64(n), 9))
		wg.Go(func() {
			for range codectest.Amount(8, 8, 25) {
				ctx, cancel := context.WithCancel(within(t))
				err := interleaved(ctx, c, r, cancel)
				if ctx.Err() == nil && err == nil {
					well.Add(1)
				} else if ctx.Err() != nil && (err == nil || status.Code(err) == codes.Canceled) {
					cancelled.Add(1)
				} else {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	a, b := near.laned(), far.laned()
	t.Logf("%d calls ended well, %d were cancelled; %d and %d messages in lanes, %d and %d alone, %d and %d sessions", well.Load(), cancelled.Load(),
		a.Sealed.Load(), b.Sealed.Load(), a.Alone.Load(), b.Alone.Load(), a.Begun.Load(), b.Begun.Load())
	if a.Broken.Load()+b.Broken.Load() > 0 || a.Sealed.Load() == 0 || b.Sealed.Load() == 0 {
		t.Errorf("near %+v, far %+v", a, b)
	}
	if e := near.stats.Snapshot().Errors; e["out_of_order"]+e["corrupt"] > 0 {
		t.Errorf("near: %v", e)
	}
}

// interleaved runs a stream of messages and their echoes, which it may cancel.
func interleaved(ctx context.Context, c *grpc.ClientConn, r *rand.Rand, cancel func()) error {
	s, err := open(ctx, c)
	if err != nil {
		return err
	}
	count, doomed := 1+r.IntN(6), r.IntN(5) == 0
	if doomed {
		time.AfterFunc(time.Duration(r.IntN(4000))*time.Microsecond, cancel)
	}
	go func() {
		for n := range count {
			in := otlp(n * 10)
			if s.SendMsg(&in) != nil {
				return
			}
		}
		_ = s.CloseSend()
	}()
	for n := range count {
		var out []byte
		if err := s.RecvMsg(&out); err != nil {
			return err
		}
		if !bytes.Equal(out, otlp(n*10)) {
			return fmt.Errorf("message %d is another one", n)
		}
	}
	var out []byte
	if err := s.RecvMsg(&out); err != io.EOF {
		return fmt.Errorf("after the last: %w", err)
	}
	return nil
}

// A call that a server refuses before it has begun is sent again by the far gateway, though its message can
// be opened only once.
func TestLanesAndRetries(t *testing.T) {
	var refusals atomic.Int64
	addr, _ := refusing(t, func(fr *xhttp2.Framer, id uint32, n int64) bool {
		if n > 4 && n%3 == 0 {
			refusals.Add(1)
			return fr.WriteRSTStream(id, xhttp2.ErrCodeRefusedStream) == nil
		}
		answerOK(fr, id)
		return true
	})
	near, far := lanedPair(t, addr, LinkPerClient, asItIs)
	c := connect(t, near.addr, grpc.WithDisableRetry())
	for n := range 20 {
		if out, err := unary(within(t), c, "Unary", protobuf(2)); err != nil || string(out) != "ok" { // the server never widens its window
			t.Errorf("call %d: %q, %v", n, out, err)
		}
	}
	if refusals.Load() < 3 || near.laned().Sealed.Load() < 15 || far.laned().Opened.Load() < 15 {
		t.Errorf("%d refusals, %d sealed, %d opened", refusals.Load(), near.laned().Sealed.Load(), far.laned().Opened.Load())
	}
}

// If a server answers before it has read the request, only the session of the request's lane is lost.
func TestLanesAndEarlyAnswers(t *testing.T) {
	early := func(srv any, s grpc.ServerStream) error {
		if md, _ := metadata.FromIncomingContext(s.Context()); len(md["x-early"]) > 0 {
			return status.Error(codes.ResourceExhausted, "too busy")
		}
		return echoAll(s)
	}
	near, _ := lanedPair(t, startServer(t, early), LinkPerClient, asItIs)
	c := connect(t, near.addr)
	for n := range 40 {
		if n%5 == 4 {
			ctx := metadata.AppendToOutgoingContext(within(t), "x-early", "1")
			if _, err := unary(ctx, c, "Unary", protobuf(2000)); status.Code(err) != codes.ResourceExhausted {
				t.Errorf("call %d: %v", n, err)
			}
			continue
		}
		mustEcho(t, c, otlp(n))
	}
	if n := near.laned().Sealed.Load(); n < 30 {
		t.Errorf("%d messages in lanes", n)
	}
}

// Unused lanes are dropped with the link's histories, and their memory is given back.
func TestLanesAreForgotten(t *testing.T) {
	t.Parallel()
	near, far := lanedPair(t, startServer(t, echo), LinkPerClient, func(near, far *Config) {
		for _, c := range []*Config{near, far} {
			if c != nil {
				c.Links.IdleTimeout = 200 * time.Millisecond
			}
		}
	})
	c := connect(t, near.addr)
	for round := range uint64(3) {
		n := 0
		testenv.Eventually(t, "another session begins", func() bool { // lanes that are idle for long are dropped between two calls
			mustEcho(t, c, otlp(n))
			n++
			return near.laned().Begun.Load() > round
		})
		for name, totals := range map[string]*lanes.Tally{"near": near.laned(), "far": far.laned()} {
			testenv.Eventually(t, name+" has forgotten", func() bool { return totals.Held.Load() == 0 })
		}
	}
	_ = c.Close()
}

// When a link ends, all memory of its lanes is given back.
func TestLanesEndWithTheLink(t *testing.T) {
	near, far := lanedPair(t, startServer(t, echo), LinkPerClient, asItIs)
	c := connect(t, near.addr)
	for n := range 6 {
		mustEcho(t, c, otlp(n))
	}
	if near.laned().Held.Load() == 0 || far.laned().Held.Load() == 0 {
		t.Error("no memory is counted")
	}
	_ = c.Close()
	for name, totals := range map[string]*lanes.Tally{"near": near.laned(), "far": far.laned()} {
		testenv.Eventually(t, name+" has given everything back", func() bool { return totals.Held.Load() == 0 })
	}
}

// A gateway between two others has lanes towards both, and compresses in a lane what it has decompressed from one.
func TestLanesOfThreeGateways(t *testing.T) {
	seen := &recorder{}
	mid, far := lanedPair(t, startServer(t, echo, grpc.StatsHandler(seen)), LinkPerClient, func(near, _ *Config) {
		if near != nil {
			near.Peers = true
		}
	})
	reply := policy.MessageRule{Setting: protoRule.Setting, MinSize: 64}
	mid.SetPolicy(rulesOf(t, reply)) // both ways
	near := startGateway(t, "grpc://"+mid.addr, func(c *Config) {
		c.Links, c.Link = slowLinks(), LinkPerClient
	})
	near.SetPolicy(rulesOf(t, reply))
	c := connect(t, near.addr)
	const calls = 30
	for n := range calls {
		mustEcho(t, c, otlp(n))
	}
	for name, r := range map[string]rig{"near": near, "mid": mid, "far": far} {
		if s, o := r.laned().Sealed.Load(), r.laned().Opened.Load(); s < calls-8 || o < calls-8 {
			t.Errorf("%s: %d messages sealed, %d opened in lanes", name, s, o)
		}
		if n := r.laned().Refused.Load() + r.laned().Broken.Load(); n > 0 {
			t.Errorf("%s: %d messages were refused", name, n)
		}
	}
	if seen.of("") != calls {
		t.Errorf("the server got %s", seen)
	}
}

// A message that is encoded by reference to a record, while its parts make more records than are kept (docs/PROTO.md,
// 8.8), arrives like any other, and calls of other clients go on.
func TestLanesForgetRecords(t *testing.T) {
	t.Parallel()
	near, far := lanedPair(t, startServer(t, echo), LinkPerClient, asItIs)
	c, other := connect(t, near.addr), connect(t, near.addr)
	for n := range 6 {
		mustEcho(t, c, otlp(n))
		mustEcho(t, other, otlp(n))
	}
	before := far.laned().Opened.Load()
	for n := range 4 { // the first ones ask for more room
		mustEcho(t, c, codectest.ForgottenRecords())
		mustEcho(t, other, otlp(n))
	}
	if n := far.laned().Opened.Load() - before; n < 5 {
		t.Errorf("%d messages were opened in lanes", n)
	}
}
