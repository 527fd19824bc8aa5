package http2

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	xhttp2 "golang.org/x/net/http2"
)

// hopOf returns the connection that the pool gives a client for its next request.
func hopOf(t *testing.T, p *Pool[*testHop], c *Client) *testHop {
	t.Helper()
	s := Slot{Client: c}
	h, err := p.Take(t.Context(), &s)
	if err != nil {
		t.Fatal(err)
	}
	p.Release(&s)
	return h
}

// cancelled begins n requests of a client on a connection and cancels them at once.
func cancelled(t *testing.T, c *ClientConn, by *Client, n int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			out, err := NewSending(request(ctx, t, "GET", "/", nil), nil)
			if out.Client = by; err == nil {
				_, _ = c.Send(&out)
			}
		})
	}
	synctest.Wait()
	cancel()
	all.Wait()
}

// pacedConn returns a connection that paces its resets, to a server that answers nothing, and the number of
// streams that were reset.
func pacedConn(streams uint32) (*ClientConn, *atomic.Int64) {
	resets := new(atomic.Int64)
	near, far := net.Pipe()
	go quietServer(far, streams, func(uint32) { resets.Add(1) })
	c := NewClientConn(near, ClientConfig{Window: testWindow, ConnWindow: testWindow, MaxHeader: testHeader})
	c.PaceResets()
	synctest.Wait()
	return c, resets
}

// A shared connection resets a few streams at once, and the others one after the other. Streams that wait to
// be reset count towards the server's limit.
func TestResetsArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams, n = 400, 100
		c, resets := pacedConn(streams)
		defer c.Close()
		cancelled(t, c, nil, n)
		synctest.Wait()
		if most, _ := c.streamLimit(); resets.Load() != resetBurst || most != streams-n+resetBurst {
			t.Errorf("%d resets at once, and room for %d requests", resets.Load(), most)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := resets.Load(); n < resetBurst+resetRate-2 || n > resetBurst+resetRate {
			t.Errorf("%d resets after a second", n)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if most, _ := c.streamLimit(); resets.Load() != n || most != streams {
			t.Errorf("%d resets in the end, and room for %d requests", resets.Load(), most)
		}
	})
}

// At most a quarter of the streams that a server accepts waits to be reset.
func TestPacedResetsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams, n = 200, 150
		c, resets := pacedConn(streams)
		defer c.Close()
		cancelled(t, c, nil, n)
		synctest.Wait()
		if resets.Load() != n-streams/pacedPart {
			t.Errorf("%d resets at once", resets.Load())
		}
	})
}

// If a quarter of the server's limit is less than one stream, one may wait.
func TestFewStreamsArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, resets := pacedConn(pacedPart - 1)
		defer c.Close()
		for range resetBurst + 1 {
			cancelled(t, c, nil, 1)
		}
		synctest.Wait()
		if n := resets.Load(); n != resetBurst {
			t.Errorf("%d resets at once, want %d", n, resetBurst)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := resets.Load(); n != resetBurst+1 {
			t.Errorf("%d resets in the end", n)
		}
	})
}

// Streams that clients began before they were known to reset much, and then reset together, do not end a
// connection that others use: it accepts no new requests, and resets no more streams a second than before.
func TestManyStreamsResetTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams, n = 400, 300
		c, resets := pacedConn(streams)
		defer c.Close()
		p := quietPool(t, 1000, nil)
		defer p.Close()
		cancelled(t, c, newUser(t, p, 1).is, n)
		synctest.Wait()
		_, usable := c.streamLimit()
		if at := resets.Load(); at != resetBurst || usable {
			t.Errorf("%d resets at once; takes new requests: %v", at, usable)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if at := resets.Load(); at < resetBurst+resetRate-2 || at > resetBurst+resetRate {
			t.Errorf("%d resets after a second", at)
		}
	})
}

// A client that resets much gets connections apart from others until it has not reset for a while. Another
// client at the same address that does not reset stays where it is.
func TestClientsThatResetMuchAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var apart []string
		p := quietPool(t, 1000, func(c *PoolConfig[*testHop]) {
			c.OnIsolated = func(client string) { apart = append(apart, client) }
		})
		defer p.Close()
		bad, good := newUser(t, p, 1).is, newUser(t, p, 1).is
		shared := hopOf(t, p, bad)
		cancelled(t, shared.Conn, bad, clientBurst)
		if hopOf(t, p, bad) != shared {
			t.Error("it is apart before it has reset much")
		}
		cancelled(t, shared.Conn, bad, 1)
		own := hopOf(t, p, bad)
		if own == shared || hopOf(t, p, bad) != own || hopOf(t, p, good) != shared {
			t.Error("the connections of the clients are wrong")
		}
		if len(apart) != 1 || apart[0] != "10.0.0.1" {
			t.Errorf("set apart: %v", apart)
		}
		other := newUser(t, p, 2).is // another address gets others
		cancelled(t, shared.Conn, other, clientBurst+1)
		if h := hopOf(t, p, other); h == own || h == shared {
			t.Error("two addresses share what is for clients that reset much, and there is room")
		}
		own.Conn.mu.Lock()
		own.Conn.goAway = &GoAwayError{Code: xhttp2.ErrCodeEnhanceYourCalm}
		own.Conn.mu.Unlock()
		begun := time.Now()
		next := hopOf(t, p, bad)
		if waited := time.Since(begun); next == own || waited != isolatedPause {
			t.Errorf("another connection after %v", waited)
		}
		own = next
		if own.Conn.pacing.enabled {
			t.Error("a connection of its own is paced")
		}
		time.Sleep(isolationTime + time.Second)
		synctest.Wait()
		if hopOf(t, p, bad) != shared {
			t.Error("it stays apart")
		}
		<-own.Conn.Done() // no request uses it
		p.Leave(bad)
		p.Leave(good)
		p.Leave(other)
		if n := len(p.isolated[0].origins); n != 0 {
			t.Errorf("%d addresses are left", n)
		}
	})
}

// A client that reconnects before a connection has reset much is detected by its address: its next
// connections are apart from the start. Connections of that address that reset nothing, and those of other
// addresses, stay where they are.
func TestResetsOfConnectionsThatComeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := quietPool(t, 1000, nil)
		defer p.Close()
		good, other := newUser(t, p, 1).is, newUser(t, p, 2).is
		shared := hopOf(t, p, good)
		came := func() *Client { return newUser(t, p, 1).is }
		for range addressBurst/clientBurst + 1 {
			bad := came()
			if hopOf(t, p, bad) != shared {
				t.Error("it is apart before its address has reset much")
			}
			cancelled(t, shared.Conn, bad, clientBurst)
			p.Leave(bad)
		}
		bad := came()
		if hopOf(t, p, bad) == shared || hopOf(t, p, good) != shared || hopOf(t, p, other) != shared {
			t.Error("the connections of the clients are wrong")
		}
		cancelled(t, hopOf(t, p, bad).Conn, bad, 10*addressBurst) // these harm only connections that are apart
		p.Leave(bad)
		cancelled(t, shared.Conn, good, 1)
		if hopOf(t, p, good) == shared {
			t.Error("it resets, too, and is not apart")
		}
		time.Sleep(isolationTime + time.Second)
		bad = came()
		if hopOf(t, p, bad) != shared || hopOf(t, p, good) != shared {
			t.Error("the address stays apart")
		}
		p.Leave(bad)
		p.Leave(good)
		p.Leave(other)
		p.mu.Lock()
		defer p.mu.Unlock()
		if n := len(p.addresses); n != 1 { // that of requests without a client
			t.Errorf("%d addresses are left", n)
		}
	})
}
