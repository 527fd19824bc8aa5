package grpc

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/peer/lanes"
	"github.com/cinch-layer/cinch/internal/gateway/peer/link"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/testenv"
)

var (
	cutsRounds = flag.Int("linkcuts.rounds", 1, "how often TestLinksThatAreCut runs, each time with other gateways and another seed")
	cutsTime   = flag.Duration("linkcuts.time", 1500*time.Millisecond, "how long connections are cut in each round")
	cutsSeed   = flag.Uint64("linkcuts.seed", 0, "of the first round; 0: any")
	cutsPiece  = flag.Int("linkcuts.piece", 15, "log2 of the longest piece that the relay passes at a time")
	cutsCalls  = flag.Uint64("linkcuts.calls", 8, "calls at a time; two share a connection")
	cutsWindow = flag.Int("linkcuts.window", 0, "of flow control, in bytes; 0: one of several")
)

// A call is given up if it waits while nothing moves for cutSilence, however slow the machine is, or if it waits for
// cutDeadline while others go on.
const (
	cutSilence  = time.Minute
	cutDeadline = 5 * time.Minute
)

// Calls through two gateways whose connections are cut, half-closed and stalled end as they should: with the
// right bytes or UNAVAILABLE. Once nothing is cut any more they all end, and succeed again.
func TestLinksThatAreCut(t *testing.T) {
	t.Parallel()
	seed := *cutsSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	for i := range uint64(*cutsRounds) {
		t.Run("", func(t *testing.T) { cutRound(t, seed+i) })
		if t.Failed() {
			return
		}
	}
}

func cutRound(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	window := *cutsWindow
	if window == 0 {
		window = []int{16 << 10, 20_000, 64 << 10, DefaultWindow}[r.IntN(4)]
	}
	budget := []int64{1 << 20, 64 << 20}[r.IntN(2)]
	mode := []LinkMode{LinkPerClient, LinkShared, LinkDefault}[r.IntN(3)]
	var withTLS *tls.Config // between the gateways; nil: none
	scheme := "grpc"
	if r.IntN(3) == 0 {
		withTLS = testenv.NewAuthority(t).Issue(t, "far").TLS(t)
		scheme = "grpcs"
	}
	farLinks := &countedLinks{linker: realLinks(t, "far")}
	zstd := policy.MessageRule{Setting: set(t, "zstd"), MinSize: 64}
	far := startGateway(t, "grpc://"+startServer(t, echo), func(c *Config) {
		c.linker, c.Peers, c.Window, c.TLS = farLinks, true, window, withTLS
		c.Requests, c.Replies = memory.NewBudget(budget), memory.NewBudget(budget)
	})
	far.SetPolicy(rulesOf(t, policy.MessageRule{Setting: protoRule.Setting, MinSize: 1000, Direction: policy.Reply}, zstd))
	rough := newRough(t, far.addr, *cutsPiece, seed)
	near := startGateway(t, scheme+"://"+rough.addr, func(c *Config) {
		c.Links, c.Link, c.Window = &link.Config{Setting: zstd1, HelloTimeout: 5 * time.Second}, mode, window
		if withTLS != nil {
			c.Upstream.TLS = &tls.Config{InsecureSkipVerify: true}
		}
		c.Requests, c.Replies = memory.NewBudget(budget), memory.NewBudget(budget)
	})
	near.SetPolicy(rulesOf(t, policy.MessageRule{Setting: protoRule.Setting, MinSize: 1000}, zstd))

	var workers sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := &cutCalls{t: t, ctx: ctx, cancel: cancel, rough: rough, calm: make(chan struct{})}
	var c *grpc.ClientConn
	for i := range *cutsCalls {
		if i%2 == 0 {
			c = connect(t, near.addr)
		}
		conn := c
		workers.Go(func() { w.work(conn, rand.New(rand.NewPCG(seed, 100+i))) })
	}
	for end := time.Now().Add(*cutsTime); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		near.pool.dialer.linkSupport.Made() // hellos are cut as well; without this, no link would be tried again for a while
	}
	rough.rest()
	close(w.calm)
	watched := make(chan struct{})
	go func() { defer close(watched); w.watch() }()
	workers.Wait()
	cancel()
	<-watched
	testenv.Eventually(t, "a link is made", func() bool {
		near.pool.dialer.linkSupport.Made()
		mustEcho(t, c, payload(100))
		return farLinks.accepted.Load() > 0
	})
	t.Logf("seed %d, %s, window %d, mode %d, budget %d: %d calls ended well, %d UNAVAILABLE, %d cancelled; %d connections, %d links, %d cut, %d bytes; the longest call took %v, and nothing moved for %v at most",
		seed, scheme, window, mode, budget, w.well.Load(), w.unavailable.Load(), w.cancelled.Load(),
		rough.conns.Load(), farLinks.accepted.Load(), rough.cuts.Load(), rough.moved.Load(), time.Duration(w.longest.Load()), w.quiet)
}

// countedLinks counts the links that are tried, and those that are accepted.
type countedLinks struct {
	linker
	entered, accepted atomic.Int64
}

func (l *countedLinks) Enter(ctx context.Context, c net.Conn, client string) (net.Conn, error) {
	l.entered.Add(1)
	return l.linker.Enter(ctx, c, client)
}

func (l *countedLinks) Accept(c net.Conn, ahead []byte) (net.Conn, error) {
	carried, err := l.linker.Accept(c, ahead)
	if err == nil {
		l.accepted.Add(1)
	}
	return carried, err
}

var zstd1 = codec.Setting{Codec: codec.Zstd, Level: 1}

func realLinks(t *testing.T, name string) linker {
	e := link.NewEndpoint(link.Config{
		Name: name, Setting: zstd1, Engine: codec.New(codec.Options{}),
		Stats: gateway.NewStats(name, "grpc"), HelloTimeout: 5 * time.Second, Extensions: lanes.Extensions(),
	})
	t.Cleanup(e.Close)
	return e
}

// cutCalls makes calls, and checks how they end.
type cutCalls struct {
	t      *testing.T
	ctx    context.Context // of all calls
	cancel context.CancelFunc
	rough  *rough
	calm   chan struct{} // closed when nothing is cut any more
	dump   sync.Once
	quiet  time.Duration // longest time since calm was closed in which nothing moved; used by watch

	well, unavailable, cancelled, longest atomic.Int64
}

// watch checks whether anything moves, until there are no more calls.
func (w *cutCalls) watch() {
	begun := time.Now()
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		select {
		case <-w.ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
		w.quiet = max(w.quiet, min(w.rough.quiet(), time.Since(begun)))
		if w.quiet > cutSilence {
			w.stalled("calls wait for nothing", nil)
			w.cancel()
			return
		}
	}
}

// work makes calls until nothing is cut any more and four calls have succeeded since.
func (w *cutCalls) work(c *grpc.ClientConn, r *rand.Rand) {
	for begun, good := time.Now(), 0; good < 4 && !w.t.Failed(); {
		calm := false
		select {
		case <-w.calm:
			calm = true
		default:
			begun = time.Now()
		}
		start := time.Now()
		err := w.call(c, r)
		w.longest.Store(max(w.longest.Load(), int64(time.Since(start)))) // a concurrent update may get lost, which does no harm
		switch {
		case err == nil:
			w.well.Add(1)
			if calm {
				good++
			}
		case brokenOff(err):
			w.unavailable.Add(1)
			if calm && time.Since(begun) > cutDeadline {
				w.stalled("calls still fail", err)
			}
		case w.ctx.Err() != nil: // already reported
		case errors.Is(err, errGaveUp):
			w.cancelled.Add(1)
		case status.Code(err) == codes.DeadlineExceeded:
			w.stalled("a call stalled", err)
		default:
			w.t.Errorf("a call ended with %v", err)
		}
	}
}

// brokenOff reports whether a call ended because its connection broke. If that was within a piece of a long message,
// the status is INTERNAL instead of UNAVAILABLE, see docs/GRPC.md.
func brokenOff(err error) bool {
	s := status.Convert(err)
	return s.Code() == codes.Unavailable || s.Code() == codes.Internal && s.Message() == io.ErrUnexpectedEOF.Error()
}

func (w *cutCalls) stalled(what string, err error) {
	w.dump.Do(func() {
		all := make([]byte, 16<<20)
		all = all[:runtime.Stack(all, true)]
		w.t.Errorf("%s: %v; the relay last moved bytes %v ago, %d in all; goroutines:\n%s", what, err, w.rough.quiet(), w.rough.moved.Load(), all)
	})
}

// errGaveUp is the error of calls that the test cancels.
var errGaveUp = errors.New("cancelled")

// call makes a call of any kind.
func (w *cutCalls) call(c *grpc.ClientConn, r *rand.Rand) error {
	ctx, cancel := context.WithTimeout(w.ctx, cutDeadline)
	defer cancel()
	switch r.IntN(10) {
	case 0, 1, 2, 3, 4:
		in := anyMessage(r)
		out, err := unary(ctx, c, "Unary", in)
		return mustBe(in, out, err)
	case 5, 6:
		return together(ctx, c, r)
	case 7, 8:
		return apart(ctx, c, r)
	default:
		time.AfterFunc(time.Duration(r.IntN(30))*time.Millisecond, cancel)
		err := apart(ctx, c, r)
		if err != nil && ctx.Err() == context.Canceled {
			return errGaveUp
		}
		return err
	}
}

func anyMessage(r *rand.Rand) []byte {
	n := int(100 * float64(uint(1)<<r.IntN(11)) * (1 + r.Float64()))
	switch r.IntN(3) {
	case 0:
		return payload(n)
	case 1:
		return protobuf(n/250 + 1)
	}
	b := make([]byte, n)
	_, _ = crand.Read(b)
	return b
}

func mustBe(in, out []byte, err error) error {
	if err == nil && !bytes.Equal(in, out) {
		return fmt.Errorf("%d bytes came back as %d others", len(in), len(out))
	}
	return err
}

// together runs a stream whose sender waits for each answer.
func together(ctx context.Context, c *grpc.ClientConn, r *rand.Rand) error {
	s, err := open(ctx, c)
	if err != nil {
		return err
	}
	for range 1 + r.IntN(10) {
		in := anyMessage(r)
		var out []byte
		if err := s.SendMsg(&in); err != nil && err != io.EOF { // RecvMsg returns the status
			return err
		}
		err := s.RecvMsg(&out)
		if err = mustBe(in, out, err); err != nil {
			return err
		}
	}
	return endStream(s)
}

func open(ctx context.Context, c *grpc.ClientConn) (grpc.ClientStream, error) {
	return c.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/test.Echo/Both")
}

// endStream ends a stream, and checks that nothing more arrives.
func endStream(s grpc.ClientStream) error {
	if err := s.CloseSend(); err != nil {
		return err
	}
	var out []byte
	switch err := s.RecvMsg(&out); err {
	case nil:
		return fmt.Errorf("%d bytes too many", len(out))
	case io.EOF:
		return nil
	default:
		return err
	}
}

// apart runs a stream whose sender does not wait for answers.
func apart(ctx context.Context, c *grpc.ClientConn, r *rand.Rand) error {
	s, err := open(ctx, c)
	if err != nil {
		return err
	}
	all := make([][]byte, 1+r.IntN(10))
	for i := range all {
		all[i] = anyMessage(r)
	}
	go func() {
		for _, in := range all {
			if s.SendMsg(&in) != nil {
				return
			}
		}
		_ = s.CloseSend()
	}()
	for _, in := range all {
		var out []byte
		if err := s.RecvMsg(&out); err == io.EOF {
			return errors.New("the end came early")
		} else if err := mustBe(in, out, err); err != nil {
			return err
		}
	}
	var out []byte
	if err := s.RecvMsg(&out); err != io.EOF {
		return fmt.Errorf("after the last: %w", err)
	}
	return nil
}

// rough is a relay that passes pieces of any size, and cuts connections at random moments in various ways,
// until rest.
type rough struct {
	addr string
	to   string

	longest int           // log2 of the longest piece
	calm    chan struct{} // closed by rest

	conns, cuts, moved, last atomic.Int64

	mu   sync.Mutex
	r    *rand.Rand
	done sync.WaitGroup // of future cuts
}

type roughConn struct {
	rough *rough
	ends  [2]net.Conn
	stop  [2]chan struct{} // closed when a direction passes nothing more
	once  sync.Once
}

func newRough(t *testing.T, to string, longest int, seed uint64) *rough {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	g := &rough{addr: l.Addr().String(), to: to, longest: longest, calm: make(chan struct{}), r: rand.New(rand.NewPCG(seed, 2))}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go g.carry(c)
		}
	}()
	return g
}

func (g *rough) quiet() time.Duration { return time.Since(epoch) - time.Duration(g.last.Load()) }

// rest ends the cuts: those that have begun are completed now, and all other connections are left alone.
func (g *rough) rest() {
	g.mu.Lock()
	close(g.calm)
	g.mu.Unlock()
	g.done.Wait()
}

func (g *rough) intn(n int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.r.IntN(n)
}

func (g *rough) carry(in net.Conn) {
	out, err := net.Dial("tcp", g.to)
	if err != nil {
		_ = in.Close()
		return
	}
	g.conns.Add(1)
	c := &roughConn{rough: g, ends: [2]net.Conn{in, out}, stop: [2]chan struct{}{make(chan struct{}), make(chan struct{})}}
	g.mu.Lock()
	select {
	case <-g.calm:
	default:
		g.done.Add(1)
		go c.cutLater(time.Duration(g.r.IntN(400))*time.Millisecond, g.r.IntN(5), time.Duration(g.r.IntN(600))*time.Millisecond)
	}
	g.mu.Unlock()
	for i := range 2 {
		go c.pump(i, rand.New(rand.NewPCG(uint64(g.intn(1<<30)), 3)))
	}
}

// cutLater cuts a connection some time later: immediately, or after one or both directions have stopped
// passing data.
func (c *roughConn) cutLater(after time.Duration, how int, stalls time.Duration) {
	g := c.rough
	defer g.done.Done()
	if !c.wait(after) {
		return // it is left alone
	}
	g.cuts.Add(1)
	switch how {
	case 0: // both at once
	case 1, 2: // an end, of one side only
		close(c.stop[how-1])
		_ = gateway.CloseWrite(c.ends[2-how])
		c.wait(stalls)
	case 3: // one side's data is no longer passed
		close(c.stop[int(after/time.Millisecond)%2])
		c.wait(stalls)
	default:
		close(c.stop[0])
		close(c.stop[1])
		c.wait(stalls)
	}
	c.reset()
}

// wait waits for d, and reports false if the cuts end meanwhile.
func (c *roughConn) wait(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-c.rough.calm:
		return false
	}
}

func (c *roughConn) reset() {
	c.once.Do(func() {
		for _, end := range c.ends {
			gateway.SetResetOnClose(end, true)
			_ = end.Close()
		}
	})
}

// pump passes one side's data, in pieces.
func (c *roughConn) pump(from int, r *rand.Rand) {
	src, dst := c.ends[from], c.ends[1-from]
	buf := make([]byte, 32<<10)
	ones := 0 // one-byte pieces still to send
	for {
		select {
		case <-c.stop[from]:
			return
		default:
		}
		size := 1
		if ones > 0 {
			ones--
		} else if r.IntN(50) == 0 {
			ones = r.IntN(300)
		} else {
			size = int(float64(uint(1)<<r.IntN(c.rough.longest)) * (1 + r.Float64()))
		}
		n, err := src.Read(buf[:size])
		select {
		case <-c.stop[from]:
			return
		default:
		}
		if n > 0 {
			c.rough.moved.Add(int64(n))
			c.rough.last.Store(int64(time.Since(epoch)))
			_, werr := dst.Write(buf[:n])
			err = errors.Join(err, werr)
		}
		if err == nil {
			continue
		}
		if errors.Is(err, io.EOF) {
			_ = gateway.CloseWrite(dst)
			return
		}
		c.reset()
		return
	}
}

// epoch is the origin of stored times.
var epoch = time.Now()
