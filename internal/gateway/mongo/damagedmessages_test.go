package mongo

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
	"github.com/cinch-layer/cinch/test/testenv"
)

var (
	huntRounds = flag.Int("hunt", 400, "how many damaged messages TestHunt sends to each side")
	huntSeed   = flag.Uint64("hunt-seed", 1, "of the chance in TestHunt")
)

// mutate damages a message in one to four places, mostly where sizes and numbers are.
func mutate(r *rand.Rand, b []byte) []byte {
	b = append([]byte(nil), b...)
	odd := []int32{0, -1, 1, 4, 5, 15, 16, 25, 1 << 16, wire.MaxMessage, wire.MaxMessage + 1, 1<<31 - 1, -1 << 31, 2012, 2013, 2004, 1}
	for range 1 + r.IntN(4) {
		at := r.IntN(len(b))
		if r.IntN(2) == 0 {
			at = r.IntN(min(len(b), 40))
		}
		switch r.IntN(6) {
		case 0:
			b[at] ^= 1 << r.IntN(8)
		case 1:
			b[at] = byte(r.IntN(256))
		case 2:
			if at+4 <= len(b) {
				binary.LittleEndian.PutUint32(b[at:], uint32(odd[r.IntN(len(odd))]))
			}
		case 3:
			b = b[:max(at, 1)]
		case 4:
			b = append(b[:at:at], append([]byte(strings.Repeat("\x00", r.IntN(20))), b[at:]...)...)
		case 5:
			b = append(b, b[at:]...)
		}
	}
	if len(b) >= 4 && r.IntN(3) > 0 { // so that parsing goes beyond the header
		wire.PutLength(b)
	}
	return b
}

// whole returns valid messages to start from.
func whole(c *rawClient) [][]byte {
	find := opMsg(7, 0, command("find", "users", bson.E{Key: "comment", Value: strings.Repeat("abc", 300)}, bson.E{Key: "limit", Value: 3}))
	insert := opMsg(8, 0, command("insert", "copies"))
	insert = append(insert, 1, 0, 0, 0, 0)
	at := len(insert) - 4
	insert = append(insert, "documents\x00"...)
	doc, _ := bson.Marshal(bson.D{{Key: "v", Value: strings.Repeat("v", 200)}})
	insert = append(append(insert, doc...), doc...)
	binary.LittleEndian.PutUint32(insert[at:], uint32(len(insert)-at))
	wire.PutLength(insert)
	all := [][]byte{
		find, insert, opMsg(9, uint32(wire.ChecksumPresent), command("ping", 1)), opMsg(10, 0, hello("zstd", "snappy")),
		opQuery(11, bson.D{{Key: "isMaster", Value: 1}, {Key: "compression", Value: bson.A{"zlib"}}}),
		opMsg(12, uint32(wire.MoreToCome), command("insert", "copies", bson.E{Key: "documents", Value: bson.A{bson.D{}}})),
	}
	for _, id := range []wire.CompressorID{wire.Zstd, wire.Snappy, wire.Zlib, wire.Noop} {
		all = append(all, c.compress(id, find), c.compress(id, insert))
	}
	return all
}

// exhausted reads until the other end closes. It returns an error if that does not happen.
func exhausted(c net.Conn) (n int64, err error) {
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	n, err = io.Copy(io.Discard, c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	return n, nil // closed, or reset
}

// TestHunt sends damaged messages to both sides of a gateway. Every connection ends, only complete messages
// reach the server, all memory is given back, and other clients are served.
func TestHunt(t *testing.T) {
	t.Run("clients", huntClients)
	t.Run("servers", huntServers)
}

func huntClients(t *testing.T) {
	_, tap := between(t)
	s := serve(t, tap.addr, withZstd)
	seeds := whole(dialRaw(t, s.addr))
	r := rand.New(rand.NewPCG(*huntSeed, 0))
	before := runtime.NumGoroutine()
	for i := range *huntRounds {
		bad := mutate(r, seeds[r.IntN(len(seeds))])
		raw := dialRaw(t, s.addr)
		if i%2 == 0 {
			raw.run(plain, hello("zstd", "snappy", "zlib"))
		}
		tap.take()
		_, _ = raw.conn.Write(bad)
		_ = raw.conn.(*net.TCPConn).CloseWrite()
		if _, err := exhausted(raw.conn); err != nil {
			t.Errorf("round %d: a connection stays open after %x", i, bad)
		}
		_ = raw.conn.Close()
		requests, _ := tap.take()
		for _, f := range requests {
			var again request
			again.plain, again.header = opened(t, raw, f), f.header()
			again.header, _ = wire.ParseHeader(again.plain)
			if err := again.parse(); err != nil {
				t.Errorf("round %d: the server was sent %x: %v; of %x", i, f.bytes, err, bad)
			}
		}
	}
	good := dialRaw(t, s.addr)
	good.run(plain, hello("zstd"))
	if a := good.run(wire.Zstd, command("find", "users")); !a.ok() {
		t.Error(a.doc)
	}
	settled(t, before+20)
}

// settled waits for the goroutines of closed connections to end.
func settled(t *testing.T, most int) {
	t.Helper()
	testenv.Eventually(t, fmt.Sprint(most, " goroutines at most"), func() bool { return runtime.NumGoroutine() <= most })
}

// liar is a server that replies with bytes set in advance.
type liar struct {
	addr string
	mu   sync.Mutex
	next []byte
}

func startLiar(t *testing.T) *liar {
	t.Helper()
	l := listen(t)
	s := &liar{addr: l.Addr().String()}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.answer(c)
		}
	}()
	return s
}

func (s *liar) answer(c net.Conn) {
	defer c.Close()
	buf := make([]byte, 8192)
	if n, _ := c.Read(buf); n == 0 {
		return
	}
	s.mu.Lock()
	next := s.next
	s.mu.Unlock()
	_, _ = c.Write(next)
	// If requests were unread at Close, TCP would reset the connection and drop the rest of the reply.
	_ = gateway.CloseWrite(c)
	_, _ = io.Copy(io.Discard, c)
}

func huntServers(t *testing.T) {
	server := startLiar(t)
	s := serve(t, server.addr, withZstd)
	c := dialRaw(t, s.addr) // for its codecs
	reply := opMsg(5, 0, bson.D{{Key: "cursor", Value: bson.D{{Key: "firstBatch", Value: bson.A{bson.D{{Key: "v", Value: strings.Repeat("abc", 300)}}}}}}, {Key: "ok", Value: 1}})
	greeting := opMsg(5, 0, bson.D{{Key: "hosts", Value: bson.A{"a:1", "b:2"}}, {Key: "me", Value: "a:1"}, {Key: "compression", Value: bson.A{"zstd"}}, {Key: "ok", Value: 1}})
	var seeds [][]byte
	for _, m := range [][]byte{reply, greeting, opMsg(5, uint32(wire.ChecksumPresent), bson.D{{Key: "ok", Value: 1}})} {
		binary.LittleEndian.PutUint32(m[8:], 1)
		if m[16]&1 != 0 {
			wire.PutChecksum(m)
		}
		seeds = append(seeds, m, c.compress(wire.Zstd, m), c.compress(wire.Zlib, m), c.compress(wire.Snappy, m))
	}
	r := rand.New(rand.NewPCG(*huntSeed, 1))
	before := runtime.NumGoroutine()
	for i := range *huntRounds {
		bad := mutate(r, seeds[r.IntN(len(seeds))])
		server.mu.Lock()
		server.next = bad
		server.mu.Unlock()
		raw := dialRaw(t, s.addr)
		request := command("find", "users")
		if i%2 == 0 {
			request = hello("zstd")
		}
		raw.last = 0
		raw.send(plain, 0, request)
		if _, err := exhausted(raw.conn); err != nil {
			t.Errorf("round %d: a connection stays open after the reply %x", i, bad)
		}
		_ = raw.conn.Close()
	}
	settled(t, before+20)
}

// recorded is one connection between two gateways, frame by frame.
type recorded struct{ up, down [][]byte }

// record runs several kinds of operations over one connection of a pair with dictionaries.
func record(t *testing.T) (p twins, c recorded) {
	t.Helper()
	server := standalone(t)
	p.far = serve(t, server.Addr, withDict(dictOf(t, 1)), peers)
	p.between = startTap(t, p.far.addr)
	p.near = serve(t, p.between.addr, withDict(dictOf(t, 2))) // training a dictionary would take long on busy machines
	p.between.take()
	raw := dialRaw(t, p.near.addr)
	raw.run(plain, hello())
	r := rand.New(rand.NewPCG(*huntSeed, 2))
	for range 40 {
		raw.run(plain, command("insert", "people", bson.E{Key: "documents", Value: bson.A{person(r)}}))
		raw.run(plain, command("find", "people", bson.E{Key: "limit", Value: 3}))
		raw.run(plain, command("ping", 1))
	}
	if !p.exchanged() {
		t.Fatal("no dictionaries were sent")
	}
	requests, replies := p.between.take()
	for _, f := range requests {
		c.up = append(c.up, f.bytes)
	}
	for _, f := range replies {
		c.down = append(c.down, f.bytes)
	}
	return p, c
}

// damaged returns the bytes of all frames, one of them damaged.
func damaged(r *rand.Rand, frames [][]byte) (all []byte) {
	k := r.IntN(len(frames))
	for i, f := range frames {
		if i == k {
			f = mutatePaired(r, f)
		}
		all = append(all, f...)
	}
	return all
}

// replay sends a handshake, and the rest after its reply.
func replay(t *testing.T, addr string, hello, rest []byte) (n int64, err error) {
	t.Helper()
	raw := dialRaw(t, addr)
	defer raw.conn.Close()
	raw.write(hello)
	if a := raw.receive(); !a.ok() {
		t.Fatal(a.doc)
	}
	go func() {
		_, _ = raw.conn.Write(rest)
		_ = raw.conn.(*net.TCPConn).CloseWrite()
	}()
	return exhausted(raw.conn)
}

// mutatePaired damages a frame between gateways, but mostly keeps a length that marks it as one.
func mutatePaired(r *rand.Rand, b []byte) []byte {
	out := mutate(r, b)
	if len(out) >= 5 && r.IntN(3) > 0 {
		binary.LittleEndian.PutUint32(out, uint32(len(out))|1<<31|uint32(r.IntN(2))<<30)
	}
	return out
}

// TestHuntPair replays a recorded connection of two gateways to each of them, with one frame damaged. Each
// connection ends, all dictionaries beyond the limit are dropped, and other clients are served.
func TestHuntPair(t *testing.T) {
	p, c := record(t)
	if len(c.up) < 100 || len(c.down) < 100 || len(c.up[len(c.up)-1]) > 200 {
		t.Fatalf("%d frames up, %d down", len(c.up), len(c.down))
	}
	r := rand.New(rand.NewPCG(*huntSeed, 3))
	before := runtime.NumGoroutine()
	t.Run("far", func(t *testing.T) {
		if n, err := replay(t, p.far.addr, c.up[0], bytes.Join(c.up[1:], nil)); n < 5000 || err != nil {
			t.Fatalf("the conversation as it was brings %d bytes, %v", n, err)
		}
		for i := range *huntRounds / 4 {
			if _, err := replay(t, p.far.addr, c.up[0], damaged(r, c.up[1:])); err != nil {
				t.Errorf("round %d: a connection stays open", i)
			}
		}
		settled(t, before+20)
	})
	t.Run("near", func(t *testing.T) {
		server := startLiar(t)
		near := serve(t, server.addr, withDicts)
		for _, d := range p.near.pairs.shelf.Latest(maxAnnounced) { // the recording names them by their hashes
			if near.pairs.shelf.Add(d) == nil {
				t.Fatal("no room")
			}
		}
		for i := range *huntRounds / 4 {
			server.mu.Lock()
			if server.next = damaged(r, c.down); i == 0 {
				server.next = bytes.Join(c.down, nil)
			}
			server.mu.Unlock()
			raw := dialRaw(t, near.addr)
			raw.send(plain, 0, hello()) // has the first request ID, as in the recording
			go func() {
				for range 40 { // the replies refer to these
					for _, m := range [][]byte{opMsg(2, 0, command("find", "people")), opMsg(3, 0, command("ping", 1))} {
						if _, err := raw.conn.Write(m); err != nil {
							return
						}
					}
				}
			}()
			if _, err := exhausted(raw.conn); err != nil {
				t.Errorf("round %d: %v", i, err)
			}
			// Bytes sent, not received: closing with unread requests drops some of them.
			if n := near.stats.Snapshot().Wire.Client.SentBytes; i == 0 && n < 20_000 {
				t.Errorf("the conversation as it was brings %d bytes", n)
			}
			_ = raw.conn.Close()
		}
		if n := near.pairs.shelf.Bytes(); n > shelfLimits.Idle {
			t.Errorf("%d bytes of dictionaries are kept", n)
		}
	})
	good := dialRaw(t, p.near.addr)
	good.run(plain, hello())
	if a := good.run(plain, command("find", "people")); !a.ok() {
		t.Error(a.doc)
	}
}
