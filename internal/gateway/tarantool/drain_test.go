package tarantool

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	tnt "github.com/tarantool/go-tarantool/v2"

	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
	"github.com/cinch-layer/cinch/test/testenv"
)

// newer is a fake server with watchers, which Debian's server does not have. It answers everything but calls
// at once; each call waits for release.
type newer struct {
	addr    string
	calls   chan struct{} // a call has arrived
	acks    chan struct{} // an acknowledgement of an event has arrived
	release chan struct{}
}

func newNewer(t *testing.T) *newer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	n := &newer{addr: l.Addr().String(), calls: make(chan struct{}, 100), acks: make(chan struct{}, 100), release: make(chan struct{})}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go n.serve(t, c)
		}
	}()
	return n
}

func (n *newer) serve(t *testing.T, c net.Conn) {
	defer c.Close()
	greeting := make([]byte, wire.GreetingLen)
	copy(greeting, "Tarantool 2.11.3 (Binary) 3f2c3a1e-0000-4000-8000-000000000000\n")
	copy(greeting[64:], "QK2HoFZGXTXBq2vFj7soCsHqTo6PGTF575ssUBAJLAI=\n")
	_, _ = c.Write(greeting)
	watched := map[string]bool{}
	for {
		head := make([]byte, 5)
		if _, err := io.ReadFull(c, head); err != nil {
			return
		}
		b := make([]byte, binary.BigEndian.Uint32(head[1:]))
		if _, err := io.ReadFull(c, b); err != nil {
			return
		}
		n.answer(t, c, b, watched)
	}
}

func (n *newer) answer(t *testing.T, c net.Conn, b []byte, watched map[string]bool) {
	var h wire.Header
	if err := h.Parse(b); err != nil {
		t.Error(err)
		return
	}
	body := keyed{0x30, []any{"done"}}
	switch h.Type {
	case wire.ID:
		body = keyed{0x54, 4, 0x55, []any{0, 1, 2, 3}}
	case wire.Watch:
		var r wire.Body
		_ = r.Parse(b, h.Map.End())
		name, _ := wire.Text(r.Event.Of(b))
		if watched[string(name)] {
			n.acks <- struct{}{}
			return
		}
		watched[string(name)] = true
		_, _ = c.Write(encode(t, wire.Event, 0, nil, keyed{0x57, string(name)}))
		return
	case wire.Unwatch:
		return
	case wire.Call:
		n.calls <- struct{}{}
		<-n.release
	}
	_, _ = c.Write(encode(t, wire.OK, h.Sync, nil, body))
}

// A driver that watches for a shutdown of the server learns of a drain: it sends nothing more, receives its
// replies, and disconnects by itself.
func TestDrainTellsWatchers(t *testing.T) {
	n := newNewer(t)
	g, addr := loneGateway(t, n.addr, func(c *Config) { c.Grace = time.Hour })
	events := make(chan tnt.ConnEvent, 100)
	c, err := tnt.Connect(t.Context(), tnt.NetDialer{Address: addr}, tnt.Opts{
		Timeout: time.Minute, SkipSchema: true, Reconnect: time.Hour, MaxReconnects: 1, Notify: events,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	<-n.acks // the driver watches, and has acknowledged the event's first value: the server is not shutting down
	call := c.Do(tnt.NewCallRequest("slow"))
	<-n.calls
	ended := make(chan error, 1)
	go func() { ended <- g.Shutdown(context.Background()) }()
	for e := <-events; e.Kind != tnt.Shutdown; e = <-events {
	}
	var refused tnt.ClientError
	if _, err := c.Do(tnt.NewPingRequest()).Get(); !errors.As(err, &refused) || refused.Code != tnt.ErrConnectionShutdown {
		t.Errorf("the driver sends more: %v", err)
	}
	close(n.release)
	if got, err := call.Get(); err != nil || len(got) != 1 {
		t.Errorf("what was under way: %v, %v", got, err)
	}
	if err := <-ended; err != nil { // long before the end of the grace period
		t.Error(err)
	}
}

// The event that the server sends for a new watch does not overwrite the gateway's event.
func TestDrainStaysTold(t *testing.T) {
	n := newNewer(t)
	g, addr := loneGateway(t, n.addr, func(c *Config) { c.Grace = time.Hour })
	c := dial(t, addr)
	c.send(wire.Call, 0x22, "slow", 0x21, []any{})
	<-n.calls
	ended := drainOf(t, g, addr)
	c.write(encode(t, wire.Watch, 0, nil, keyed{0x57, shutdownEvent}))
	if a := c.read(); a.code != wire.Event {
		t.Fatalf("told %#x", a.code)
	}
	close(n.release) // the reply, and then the server's event
	c.send(wire.Ping)
	for range 2 {
		if a := c.read(); a.code != wire.OK {
			t.Errorf("answered %#x", a.code)
		}
	}
	_ = c.c.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A client that begins to watch while the gateway drains is told too. It is disconnected after the grace
// period if it does not leave.
func TestDrainEndsWatchersThatStay(t *testing.T) {
	t.Parallel()
	n := newNewer(t)
	g, addr := loneGateway(t, n.addr, func(c *Config) { c.Grace = time.Millisecond })
	c := dial(t, addr)
	c.send(wire.Call, 0x22, "slow", 0x21, []any{})
	<-n.calls
	ended := drainOf(t, g, addr)
	c.write(encode(t, wire.Watch, 0, nil, keyed{0x57, shutdownEvent}))
	if a := c.read(); a.code != wire.Event {
		t.Fatalf("told %#x", a.code)
	}
	close(n.release)
	if a := c.read(); a.code != wire.OK {
		t.Errorf("answered %#x", a.code)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// drainOf starts to drain a gateway, and returns when it accepts no new clients.
func drainOf(t *testing.T, g *Gateway, addr string) (ended <-chan error) {
	t.Helper()
	end := make(chan error, 1)
	go func() { end <- g.Shutdown(context.Background()) }()
	testenv.Eventually(t, "no other client is accepted", func() bool {
		d, err := net.Dial("tcp", addr)
		if err == nil {
			_ = d.Close()
		}
		return err != nil
	})
	return end
}

func TestDrain(t *testing.T) {
	t.Parallel()
	b := newBed(t, policy.Options{Rules: rules()}, nil)
	idle, busy := b.client(), b.client()
	b.put(busy, 1, document(1))
	sync := busy.send(wire.Call, 0x22, "slow", 0x21, []any{})
	b.asleep()
	ended := make(chan error, 1)
	go func() { ended <- b.g.Shutdown(context.Background()) }()
	if _, err := idle.tryRead(); !errors.Is(err, io.EOF) {
		t.Errorf("an idle client: %v", err)
	}
	b.wake()
	if a := busy.read(); a.sync != sync || a.code != wire.OK {
		t.Errorf("%#x", a.code)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A session with an open transaction gets the grace period of a drain, since its end would roll the
// transaction back.
func TestDrainAwaitsTransactions(t *testing.T) {
	t.Parallel()
	b := newBed(t, policy.Options{Rules: rules()}, func(c *Config) { c.Grace = time.Hour })
	busy := b.client()
	busy.sync++
	busy.write(encode(t, wire.Begin, busy.sync, keyed{0x0a, uint64(1)}, nil))
	busy.read()
	b.put(busy, 1, document(1))
	idle := b.client() // its BeginPatience ends after that of busy
	ended := make(chan error, 1)
	go func() { ended <- b.g.Shutdown(context.Background()) }()
	if _, err := idle.tryRead(); !errors.Is(err, io.EOF) {
		t.Errorf("an idle client: %v", err)
	}
	busy.sync++
	busy.write(encode(t, wire.Rollback, busy.sync, keyed{0x0a, uint64(1)}, nil))
	if a, err := busy.tryRead(); err != nil || a.sync != busy.sync {
		t.Errorf("%+v, %v", a, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
