package http2

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	xhttp2 "golang.org/x/net/http2"
)

// quietServer accepts the given number of concurrent streams and answers nothing. It calls reset for each
// stream that is reset.
func quietServer(c net.Conn, streams uint32, reset func(id uint32)) {
	defer c.Close()
	_, _ = io.ReadFull(c, make([]byte, len(xhttp2.ClientPreface)))
	var out bytes.Buffer
	fr := xhttp2.NewFramer(&out, c)
	_ = fr.WriteSettings(xhttp2.Setting{ID: xhttp2.SettingMaxConcurrentStreams, Val: streams})
	for {
		if _, err := out.WriteTo(c); err != nil {
			return
		}
		f, err := fr.ReadFrame()
		if err != nil {
			return
		}
		switch f := f.(type) {
		case *xhttp2.SettingsFrame:
			if !f.IsAck() {
				_ = fr.WriteSettingsAck()
			}
		case *xhttp2.RSTStreamFrame:
			reset(f.StreamID)
		}
	}
}

// quietPool returns a pool that has one connection to a quiet server already. change may be nil.
func quietPool(t *testing.T, streams uint32, change func(*PoolConfig[*testHop])) *Pool[*testHop] {
	cfg := PoolConfig[*testHop]{MaxConns: 1, Linger: time.Second, Connect: func(context.Context) (*testHop, error) {
		near, far := net.Pipe()
		go quietServer(far, streams, func(uint32) {})
		return &testHop{Pooled{Conn: NewClientConn(near, ClientConfig{Window: testWindow, ConnWindow: testWindow, MaxHeader: testHeader})}}, nil
	}}
	if change != nil {
		change(&cfg)
	}
	p := NewPool(cfg)
	var s Slot
	if _, err := p.Take(t.Context(), &s); err != nil {
		t.Fatal(err)
	}
	p.Release(&s)
	synctest.Wait() // for the settings
	return p
}

// user is a client's connection in a test.
type user struct {
	t    *testing.T
	pool *Pool[*testHop]
	is   *Client
}

func newUser(t *testing.T, p *Pool[*testHop], address byte) *user {
	return &user{t, p, p.Client(&net.TCPAddr{IP: net.IPv4(10, 0, 0, address), Port: 1})}
}

// held is a request of a user.
type held struct {
	user   *user
	slot   Slot
	silent atomic.Bool
	asked  atomic.Int64 // number of calls of Silent
	moved  atomic.Uint64
	got    atomic.Bool // it has a connection
	why    atomic.Pointer[error]
	cancel context.CancelFunc
}

func (u *held) Moved() uint64 { return u.moved.Load() }

func (u *held) Silent() bool {
	u.asked.Add(1)
	return u.silent.Load()
}

func (u *held) Yield(why error) {
	u.why.Store(&why)
	go u.end()
}

func (u *held) end() { u.user.pool.Release(&u.slot) }

// begin begins n requests, one after the other.
func (u *user) begin(n int, silent bool) (all []*held) {
	for range n {
		x := &held{user: u}
		x.silent.Store(silent)
		x.slot = Slot{Client: u.is, Call: x}
		ctx, cancel := context.WithCancel(u.t.Context())
		x.cancel = cancel
		go func() {
			if _, err := u.pool.Take(ctx, &x.slot); err == nil {
				x.got.Store(true)
			}
		}()
		synctest.Wait()
		all = append(all, x)
	}
	return all
}

// count returns how many requests have a connection, and how many of those had to yield for the reason why.
func count(all []*held, why error) (got, yielded int) {
	for _, u := range all {
		switch w := u.why.Load(); {
		case w != nil && errors.Is(*w, why):
			yielded++
		case w == nil && u.got.Load():
			got++
		}
	}
	return got, yielded
}

func expect(t *testing.T, what string, all []*held, why error, got, yielded int) {
	t.Helper()
	synctest.Wait()
	if g, y := count(all, why); g != got || y != yielded {
		t.Errorf("%s: %d have a stream and %d have lost theirs, want %d and %d", what, g, y, got, yielded)
	}
}

// A client that is alone uses all streams for as long as it likes.
func TestShareAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := quietPool(t, 20, nil)
		defer p.Close()
		a := newUser(t, p, 1).begin(25, true)
		time.Sleep(time.Hour)
		expect(t, "alone", a, ErrSilent, 20, 0)
		a[0].end()
		expect(t, "the next", a, ErrSilent, 21, 0)
	})
}

// Calls that send only headers lose their streams after a second in which other clients wait, and an eighth of the
// streams stays free for those clients. It is used again ten seconds after they have gone.
func TestShareSilent(t *testing.T) {
	for name, address := range map[string]byte{"another address": 2, "the same address": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := quietPool(t, 20, nil)
				defer p.Close()
				bad := newUser(t, p, 1).begin(50, true)
				good := newUser(t, p, address)
				first := good.begin(1, false)
				time.Sleep(silentTime - time.Millisecond)
				expect(t, "at first", first, nil, 0, 0)
				time.Sleep(2 * sharePeriod)
				expect(t, "then", first, nil, 1, 0)
				expect(t, "the others", bad, ErrSilent, 17, 3)
				expect(t, "at once", good.begin(2, false), nil, 2, 0)
				first[0].end()
				expect(t, "again", good.begin(1, false), nil, 1, 0)
				good.pool.Leave(good.is)
			})
		})
	}
}

// Free streams go to the address and the connection with the fewest.
func TestShareFewestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := quietPool(t, 20, nil)
		defer p.Close()
		many := newUser(t, p, 1).begin(40, false)
		few := newUser(t, p, 2).begin(4, false)
		same := newUser(t, p, 1).begin(2, false) // the address has many, but not the connection
		for i := range 3 {
			many[i].end()
			expect(t, "few", few, nil, i+1, 0)
		}
		expect(t, "many", many, nil, 20, 0)
		expect(t, "same", same, nil, 0, 0)
		many[3].end()
		expect(t, "few", few, nil, 4, 0)
		// Two streams are kept for clients below their share.
		many[4].end()
		many[5].end()
		expect(t, "kept", many, nil, 20, 0)
	})
}

// A client above its share loses the stream that has been quiet for the longest time, when one below it has
// waited for four seconds.
func TestShareMostIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := quietPool(t, 10, nil)
		defer p.Close()
		many := newUser(t, p, 1).begin(8, false)
		quiet := newUser(t, p, 3).begin(2, false)
		few := newUser(t, p, 2).begin(1, false)
		for range 3 {
			time.Sleep(time.Second)
			for _, u := range many[1:] {
				u.moved.Add(1)
			}
		}
		expect(t, "many", many, ErrShare, 8, 0)
		time.Sleep(time.Second + 2*sharePeriod)
		expect(t, "few", few, nil, 1, 0)
		expect(t, "many", many, ErrShare, 7, 1)
		expect(t, "quiet", quiet, ErrShare, 2, 0)
		if many[0].why.Load() == nil {
			t.Error("it was another one that has lost its stream")
		}
	})
}

// When the others have gone, a client may use all streams again.
func TestShareEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := quietPool(t, 20, nil)
		defer p.Close()
		bad := newUser(t, p, 1).begin(50, true)
		good := newUser(t, p, 2)
		first := good.begin(1, false)
		time.Sleep(2 * time.Second)
		first[0].end()
		good.pool.Leave(good.is)
		time.Sleep(2 * contendedTime)
		expect(t, "the others", bad, ErrSilent, 20, 3)
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.common.present) != 1 || p.common.contended {
			t.Errorf("%d clients are there", len(p.common.present))
		}
	})
}

// A request that ends while it waits leaves nothing behind.
func TestShareGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := quietPool(t, 1, nil)
		defer p.Close()
		first, second := newUser(t, p, 1), newUser(t, p, 2)
		a, b := first.begin(1, false), second.begin(1, false)
		b[0].cancel()
		synctest.Wait()
		a[0].end()
		synctest.Wait()
		p.Leave(first.is)
		p.Leave(second.is)
		time.Sleep(time.Minute)
		p.mu.Lock()
		defer p.mu.Unlock()
		if g := p.common; len(g.waiting)+len(g.present) > 0 || g.checking || len(g.origins) != 1 || g.conns[0].Active() != 0 {
			t.Errorf("%d wait, %d are there from %d addresses, %d requests", len(g.waiting), len(g.present), len(g.origins), g.conns[0].Active())
		}
	})
}

// However many calls of a client wait, taking and releasing a stream takes little work. All waiting calls are checked
// only a few times a second, and then calls that have sent more than headers are moved to the front.
func TestShareLooksAtFewThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := quietPool(t, 20, nil)
		defer p.Close()
		bad := newUser(t, p, 1).begin(1000, true)
		good := newUser(t, p, 2)
		expect(t, "at first", good.begin(1, false), nil, 0, 0)
		time.Sleep(silentTime + 2*sharePeriod + time.Millisecond) // not at the moment of a check
		asked := func() (n int64) {
			for _, u := range bad {
				n += u.asked.Load()
			}
			return n
		}
		before := asked()
		next := good.begin(1, false)
		next[0].end()
		if n := asked() - before; n > 4*maxExamined {
			t.Errorf("a call of another client asked %d of those that wait", n)
		}
		late := bad[len(bad)-1]
		late.silent.Store(false)
		time.Sleep(2 * sharePeriod)
		for _, u := range bad {
			if u.got.Load() && u.why.Load() == nil {
				u.end()
			}
		}
		synctest.Wait()
		if !late.got.Load() {
			t.Error("a call that has sent something waits behind those that have not")
		}
	})
}

// The same holds for calls that wait on as many connections. A call that begins to wait is considered however many
// wait before it.
func TestShareLooksAtFewConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := quietPool(t, 20, nil)
		defer p.Close()
		var bad []*held
		for range 500 {
			bad = append(bad, newUser(t, p, 1).begin(1, true)...)
		}
		good := newUser(t, p, 2)
		expect(t, "at first", good.begin(1, false), nil, 0, 0)
		time.Sleep(silentTime + 2*sharePeriod + time.Millisecond) // not at the moment of a check
		asked := func() (n int64) {
			for _, u := range bad {
				n += u.asked.Load()
			}
			return n
		}
		before := asked()
		next := good.begin(1, false)
		expect(t, "the next", next, nil, 1, 0)
		next[0].end()
		if n := asked() - before; n > 16*maxExamined {
			t.Errorf("a call of another client asked %d of those that wait", n)
		}
		late := bad[len(bad)/2]
		late.silent.Store(false)
		time.Sleep(2 * sharePeriod)
		for _, u := range bad {
			if u != late && u.got.Load() && u.why.Load() == nil {
				u.end()
			}
		}
		synctest.Wait()
		if !late.got.Load() {
			t.Error("a call that has sent something waits behind those that have not")
		}
	})
}
