package link

import (
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	wire "github.com/cinch-layer/cinch/internal/wire/peer"
	"github.com/cinch-layer/cinch/test/testenv"
)

// stuck is a connection that returns the same bytes forever, and blocks writes until it is closed.
type stuck struct {
	spoken
	says   []byte
	at     int
	taking *sync.WaitGroup // done by the first Write; nil: nothing waits for that
	once   sync.Once
	closed chan struct{}
}

func (c *stuck) Read(p []byte) (int, error) {
	select {
	case <-c.closed:
		return 0, net.ErrClosed
	default:
	}
	n := copy(p, c.says[c.at:])
	c.at = (c.at + n) % len(c.says)
	return n, nil
}

func (c *stuck) Write([]byte) (int, error) {
	if c.taking != nil {
		c.once.Do(c.taking.Done)
	}
	<-c.closed
	return 0, net.ErrClosed
}

// flow is a memory.Flow whose peers are never too slow.
type flow struct{}

func (flow) Progress() int64         { return time.Now().UnixNano() }
func (flow) Patience() time.Duration { return time.Hour }
func (flow) Cut(memory.StallReason)  {}

// Links that are stuck in both directions hold at most the budget and, each, a few bytes outside it. Those that get
// nothing of the budget wait, and continue or end.
func TestMemoryOfStuckLinks(t *testing.T) {
	const links, budget, free = 400, 8 << 20, 2*freePiece + readBytes + freePiece
	noise := make([]byte, wire.MaxRaw)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	frame := append(wire.AppendRaw(nil, len(noise)), noise...)
	e := NewEndpoint(Config{Engine: codec.New(codec.Options{}), Setting: codec.Setting{Codec: codec.S2}, Stats: gateway.NewStats("g", "tunnel")})
	defer e.Close()
	requests, replies := memory.NewBudget(budget), memory.NewBudget(budget)
	server := sayers(t, noise)
	before := testenv.InUse()
	var writing, ended sync.WaitGroup
	closed := make(chan struct{})
	var all []*Link
	for range links {
		local, peer, says := &stuck{closed: closed}, &stuck{says: frame, taking: &writing, closed: closed}, speaker(t, server, noise)
		l, _ := e.newLink(peer, true)
		l.out.init(l, wire.Hello{Codecs: sends})
		sent, received := requests.Share("g").Account(&net.TCPAddr{}, flow{}), replies.Share("g").Account(&net.TCPAddr{}, flow{})
		l.Start(Owner{Abort: func() {}, Sent: sent, Received: received, Near: memory.FromClient, Far: memory.FromUpstream})
		all = append(all, l)
		writing.Add(1)
		ended.Go(func() {
			defer sent.Close()
			buf, n, err := l.Collect(says)
			if err == nil {
				err = l.Send(buf, n)
			}
			if !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		})
		ended.Go(func() {
			defer received.Close()
			defer l.Free()
			if err := receiveAll(l, local); !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		})
	}
	writing.Wait()
	testenv.Eventually(t, "the rest waits for memory", func() bool { return replies.Waiting() > links/2 })
	held := testenv.InUse() - before
	t.Logf("%d links hold %d bytes of heap each, %d and %d of the budgets in all, %d wait", links, held/links, requests.InUse(), replies.InUse(), replies.Waiting())
	if limit := int64(2*budget + links*(free+8<<10)); int64(held) > limit && !testenv.RaceDetector {
		t.Errorf("%d bytes in all, more than %d", held, limit)
	}
	for _, l := range all[:links/2] {
		l.Interrupt()
	}
	close(closed)
	ended.Wait()
	for _, b := range []*memory.Budget{requests, replies} {
		if u := b.Use(); u.InUse != 0 || u.Waiting != 0 || u.Peak > budget+256<<10 {
			t.Errorf("%+v", u)
		}
	}
	for _, l := range all {
		l.End()
		l.Leave()
	}
	wantNone(t, e)
}

// sayers returns the address of a server that sends a fixed number of bytes and no more.
func sayers(t *testing.T, says []byte) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write(says)
			t.Cleanup(func() { _ = c.Close() })
		}
	}()
	return l.Addr().String()
}

// speaker returns a connection to that server on which all bytes have arrived.
func speaker(t *testing.T, server string, says []byte) net.Conn {
	t.Helper()
	up, err := endpoint.ParseUpstream(server, "")
	if err != nil {
		t.Fatal(err)
	}
	c, err := gateway.Dial(t.Context(), up, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	peek := make([]byte, len(says))
	testenv.Eventually(t, "it is there", func() bool { return waiting(t, c, peek) == len(says) })
	return c
}

func receiveAll(l *Link, to net.Conn) error {
	out := l.Gather(to)
	defer out.Free()
	for {
		f, err := l.Next(out.Flush)
		if err == nil {
			err = out.Add(f)
		}
		if err != nil {
			return err
		}
	}
}

// slow is a memory.Flow whose peer moves nothing.
type slow struct{ cut chan memory.StallReason }

func (slow) Progress() int64         { return 0 }
func (slow) Patience() time.Duration { return time.Millisecond }
func (f slow) Cut(v memory.StallReason) {
	select {
	case f.cut <- v:
	default:
	}
}

// A peer that does not read is checked for stalls also while a GRANT blocks the piece that holds memory.
func TestStuckNoteIsJudged(t *testing.T) {
	noise := make([]byte, wire.MaxRaw)
	e := NewEndpoint(Config{Engine: codec.New(codec.Options{}), Setting: codec.Setting{Codec: codec.S2}, Stats: gateway.NewStats("g", "tunnel")})
	defer e.Close()
	b := memory.NewBudget(1 << 20)
	cut := make(chan memory.StallReason, 1)
	sent, other := b.Share("g").Account(&net.TCPAddr{}, slow{cut}), b.Share("g").Account(&net.TCPAddr{}, flow{})
	defer sent.Close()
	defer other.Close()
	closed := make(chan struct{})
	var taking sync.WaitGroup
	taking.Add(1)
	l, _ := e.newLink(&stuck{taking: &taking, closed: closed}, true)
	l.out.init(l, wire.Hello{Codecs: sends})
	l.Start(Owner{Abort: func() {}, Sent: sent, Near: memory.FromClient, Far: memory.FromUpstream})
	l.out.note(wire.Frame{Kind: wire.Speed, Speed: 1})
	taking.Wait()
	buf, n, err := l.Collect(speaker(t, sayers(t, noise), noise))
	if err != nil || b.InUse() == 0 {
		t.Fatal(b.InUse(), err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = l.Send(buf, n)
	}()
	testenv.Eventually(t, "the peer is judged", func() bool {
		other.TryAcquire(1 << 20) // which is more than there is
		select {
		case v := <-cut:
			return v.Peer == memory.FromUpstream
		default:
			return false
		}
	})
	close(closed)
	<-ended
	l.End()
	l.Leave()
	l.Free()
}
