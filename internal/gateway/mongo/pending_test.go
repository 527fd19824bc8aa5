package mongo

import (
	"bytes"
	"testing"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

func TestPendingExchanges(t *testing.T) {
	var p pending
	p.init()
	for i, id := range []int32{5, 7, 5} {
		p.push(&exchange{id: id, shape: uint64(i)}, nil)
	}
	if x, ok := p.take(5, true, 8); !ok || x.shape != 0 {
		t.Errorf("the first of one number: %+v, %v", x, ok)
	}
	if x, ok := p.take(8, false, 0); !ok || x.shape != 0 || !x.sent.IsZero() {
		t.Errorf("the next of a stream: %+v, %v", x, ok)
	}
	if _, ok := p.take(9, false, 0); ok {
		t.Error("found a request that was not sent")
	}
	p.take(5, false, 0)
	p.take(7, false, 0)
	if !p.busy() {
		t.Error("a reply that is on its way to the client is not missed")
	}
	p.replySent()
	p.push(&exchange{id: 1, hello: &handshake{}}, nil)
	if p.busy() {
		t.Error("a waiting hello counts as busy")
	}
}

// room is closed when a push blocks.
type room chan struct{}

func (r room) Await(memory.Peer) { close(r) }
func (room) Awaited(memory.Peer) {}

// A client that sends without reading is blocked until there is room or the server has ended.
func TestPendingIsBounded(t *testing.T) {
	var p pending
	p.init()
	for range maxPending {
		p.push(&exchange{id: 1}, nil)
	}
	for _, c := range []struct {
		free func()
		want bool
	}{{func() { p.take(1, false, 0) }, true}, {p.close, false}} {
		waits, done := make(chan struct{}), make(chan bool)
		go func() { done <- p.push(&exchange{id: 2}, room(waits)) }()
		<-waits
		c.free()
		if ok := <-done; ok != c.want {
			t.Errorf("pushed: %v", ok)
		}
	}
}

// Drivers choose request IDs freely: two requests in flight may have the same one.
func TestSameNumberTwice(t *testing.T) {
	tap := taped(t)
	s := serve(t, tap.addr, withZstd)
	raw := dialRaw(t, s.addr)
	raw.run(plain, hello("zstd"))
	find := opMsg(9, 0, command("find", "users"))
	raw.write(append(append(bytes.Clone(find), raw.compress(wire.Zstd, find)...), opMsg(9, 0, command("ping", 1))...))
	for i, want := range []wire.CompressorID{plain, wire.Zstd, plain} {
		if a := raw.receive(); !a.ok() || a.header.ResponseTo != 9 || a.came != want {
			t.Errorf("reply %d: %+v, came as %d", i, a.header, a.came)
		}
	}
}
