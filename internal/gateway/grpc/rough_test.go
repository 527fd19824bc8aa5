package grpc

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
)

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

// rest ends the cuts: connections that are due are cut now, all others are left alone.
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
