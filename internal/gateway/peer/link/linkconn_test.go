package link

import (
	"bytes"
	crand "crypto/rand"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/peer"
	"github.com/cinch-layer/cinch/test/testenv"
)

func newEndpoint(t *testing.T, name string) *Endpoint {
	t.Helper()
	e := NewEndpoint(Config{
		Name: name, Setting: codec.Setting{Codec: codec.Zstd, Level: 1}, Engine: codec.New(codec.Options{}),
		Stats: gateway.NewStats(name, "grpc"), HelloTimeout: 20 * time.Second,
	})
	t.Cleanup(func() {
		e.Close()
		wantNone(t, e)
	})
	return e
}

// wantNone checks that an endpoint holds no memory.
func wantNone(t testing.TB, e *Endpoint) {
	t.Helper()
	if s := e.State(); s.Used != 0 || s.Promised != 0 || s.Unused != 0 {
		t.Errorf("%s: of histories %d bytes are held, %d promised and %d of them not used, by nobody", e.cfg.Name, s.Used, s.Promised, s.Unused)
	}
}

// wires returns two ends of a TCP connection.
func wires(t *testing.T) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{a, b} {
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(3 * time.Minute))
	}
	return a, b
}

// carryNew returns both ends of a new link, and the connections below it.
func carryNew(t *testing.T, near, far *Endpoint) (n, f net.Conn, below [2]net.Conn) {
	t.Helper()
	a, b := wires(t)
	met := make(chan error, 1)
	go func() {
		first := make([]byte, 1)
		_, err := io.ReadFull(b, first)
		if err == nil && !far.IsHello(first[:1]) {
			err = errors.New("not a hello")
		}
		if err == nil {
			f, err = far.Accept(b, first)
		}
		met <- err
	}()
	n, err := near.Enter(t.Context(), a, "")
	if err = errors.Join(err, <-met); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close(); _ = f.Close() })
	return n, f, [2]net.Conn{a, b}
}

// Bytes in both directions at once, in pieces of any size, arrive unchanged, and then the end.
func TestCarriedBytes(t *testing.T) {
	near, far := newEndpoint(t, "near"), newEndpoint(t, "far")
	n, f, _ := carryNew(t, near, far)
	var all sync.WaitGroup
	for seed, ends := range [][2]net.Conn{{n, f}, {f, n}} {
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		message := make([]byte, 3<<20)
		for i := range message {
			message[i] = byte(rng.IntN(4)) * byte(i>>18) // all kinds of compressible
		}
		all.Go(func() {
			for rest := message; len(rest) > 0; {
				k := min(len(rest), 1+rng.IntN(1<<rng.IntN(19)))
				if w, err := ends[0].Write(rest[:k]); err != nil || w != k {
					t.Error(w, err)
					return
				}
				rest = rest[k:]
			}
		})
		all.Go(func() {
			got := make([]byte, len(message))
			if _, err := io.ReadFull(ends[1], got); err != nil || !bytes.Equal(got, message) {
				t.Errorf("not what was sent, %v", err)
			}
		})
	}
	all.Wait()
	if s := near.cfg.Stats.Snapshot(); len(s.Rules) == 0 || s.Rules[0].Rule != "link" || s.Rules[0].StoredBytes*2 > s.Rules[0].RawBytes {
		t.Errorf("%+v", s.Rules)
	}
	_ = n.Close()
	if k, err := f.Read(make([]byte, 1)); k != 0 || err != io.EOF {
		t.Errorf("after the end %d, %v", k, err)
	}
	if _, err := n.Write([]byte("late")); err == nil {
		t.Error("written after Close")
	}
}

// Bytes sent before a connection broke may arrive. Then Read returns an error, not io.EOF.
func TestCarriedCut(t *testing.T) {
	near, far := newEndpoint(t, "near"), newEndpoint(t, "far")
	n, f, below := carryNew(t, near, far)
	if _, err := n.Write([]byte("something")); err != nil {
		t.Fatal(err)
	}
	_ = below[0].Close()
	got, err := io.ReadAll(f)
	if err == nil || string(got) != "something" && len(got) > 0 {
		t.Errorf("%q, %v", got, err)
	}
	if e := far.cfg.Stats.Snapshot().Errors; len(e) != 1 || e["link_lost"] != 1 {
		t.Errorf("%v", e)
	}
}

// Damage is an error, and no damaged byte is returned.
func TestCarriedDamage(t *testing.T) {
	near, far := newEndpoint(t, "near"), newEndpoint(t, "far")
	_, f, below := carryNew(t, near, far)
	frame := []byte{0x05, 4, 4, 0, 0, 0, 0, 1, 2, 3, 4} // a block of zstd that is none
	if _, err := below[0].Write(frame); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 10)
	if k, err := f.Read(got); k > 0 || err == nil {
		t.Errorf("%x, %v", got[:k], err)
	}
	if far.cfg.Stats.Snapshot().Errors["corrupt"] == 0 {
		t.Errorf("%v", far.cfg.Stats.Snapshot().Errors)
	}
}

// A link with HTTP/2 inside sends no RESET, so a received one is a fault of the peer.
func TestCarriedReset(t *testing.T) {
	near, far := newEndpoint(t, "near"), newEndpoint(t, "far")
	_, f, below := carryNew(t, near, far)
	if _, err := below[0].Write([]byte{byte(wire.Reset), byte(wire.ReasonUnreachable)}); err != nil {
		t.Fatal(err)
	}
	var reset ResetError
	if _, err := f.Read(make([]byte, 1)); !errors.As(err, &reset) {
		t.Error(err)
	}
	if e := far.cfg.Stats.Snapshot().Errors; len(e) != 1 || e["malformed"] != 1 {
		t.Errorf("%v", e)
	}
}

// Close and a deadline end a blocked Read of another goroutine.
func TestCarriedClose(t *testing.T) {
	near, far := newEndpoint(t, "near"), newEndpoint(t, "far")
	n, f, _ := carryNew(t, near, far)
	ended := make(chan error, 1)
	go func() {
		_, err := n.Read(make([]byte, 1))
		ended <- err
	}()
	time.Sleep(10 * time.Millisecond)
	_ = n.Close()
	if err := <-ended; err == nil {
		t.Error("a Read ended well")
	}
	_ = n.Close() // does nothing
	if _, err := f.Read(make([]byte, 1)); err != io.EOF {
		t.Error(err)
	}
	_, f, _ = carryNew(t, near, far)
	_ = f.SetReadDeadline(time.Now().Add(-time.Second))
	if _, err := f.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	testenv.Eventually(t, "it is forgotten", func() bool {
		near.mu.Lock()
		defer near.mu.Unlock()
		return len(near.links) <= 1
	})
}

// afterFailure records what is written to it after a failed write.
type afterFailure struct {
	net.Conn
	failed bool
	late   int
}

func (w *afterFailure) Write(p []byte) (int, error) {
	if w.failed {
		w.late += len(p)
	}
	n, err := w.Conn.Write(p)
	w.failed = w.failed || err != nil
	return n, err
}

// A link whose peer does not read is closed without FIN, which would end up within another frame.
func TestCarriedStuck(t *testing.T) {
	near, far := newEndpoint(t, "near"), newEndpoint(t, "far")
	a, b := wires(t)
	accepted := make(chan net.Conn, 1)
	go func() {
		f, _ := far.Accept(b, nil)
		accepted <- f
	}()
	w := &afterFailure{Conn: a}
	n, err := near.Enter(t.Context(), w, "")
	if err != nil {
		t.Fatal(err)
	}
	_ = n.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	noise := make([]byte, 1<<20)
	for err == nil {
		_, _ = crand.Read(noise)
		_, err = n.Write(noise)
	}
	_ = n.Close()
	if !w.failed || w.late > 0 {
		t.Errorf("%d bytes after %v", w.late, err)
	}
	if f := <-accepted; f != nil {
		_ = f.Close()
	}
}

// A peer that does not answer like a gateway is not mistaken for one.
func TestCarriedStrangers(t *testing.T) {
	near, far := newEndpoint(t, "near"), newEndpoint(t, "far")
	for _, answer := range []string{"", "HTTP/1.1 400 Bad Request\r\n\r\n", "\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x80\x00\x04\x00\x01\x00\x00"} {
		a, b := wires(t)
		go func() {
			_, _ = b.Write([]byte(answer))
			_ = b.Close()
		}()
		if _, err := near.Enter(t.Context(), a, ""); err == nil {
			t.Errorf("entered with %q", answer)
		}
	}
	a, b := wires(t)
	go func() { _, _ = a.Write(bytes.Repeat([]byte("x"), 100)) }()
	if _, err := far.Accept(b, []byte{0}); err == nil {
		t.Error("accepted")
	}
	if far.cfg.Stats.Snapshot().Errors["bad_hello"] == 0 {
		t.Error("not counted")
	}
}

// What an owner remembers of a link is forgotten on both sides though the link itself had no history: what it carried
// could not be compressed.
func TestOwnersForgetWithoutHistory(t *testing.T) {
	near, far := newEndpoint(t, "near"), newEndpoint(t, "far")
	n, f, _ := carryNew(t, near, far)
	remembers := true
	forgotten := make(chan struct{}, 1)
	n.(*carried).Share(Sharing{Busy: func() bool { return false }, Forget: func() bool { remembers = false; return true }, Forgotten: func() {}})
	f.(*carried).Share(Sharing{Busy: func() bool { return false }, Forget: func() bool { return true }, Forgotten: func() { forgotten <- struct{}{} }})
	message := make([]byte, 4<<10)
	_, _ = crand.Read(message)
	if _, err := n.Write(message); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(f, make([]byte, len(message))); err != nil {
		t.Fatal(err)
	}
	if n.(*carried).l.out.stream != nil {
		t.Fatal("the link has a history")
	}
	go func() { _, _ = f.Read(make([]byte, 1)) }()
	near.forgetIdle(time.Hour)
	near.forgetIdle(0)
	select {
	case <-forgotten:
	case <-time.After(time.Minute):
		t.Fatal("the other side was not told")
	}
	if remembers {
		t.Error("this side remembers")
	}
	near.forgetIdle(0) // there is nothing more to forget
	out := &n.(*carried).l.out
	out.mu.Lock()
	defer out.mu.Unlock()
	if out.epoch != 1 || out.mayDrop() {
		t.Errorf("told %d times, and again", out.epoch)
	}
}
