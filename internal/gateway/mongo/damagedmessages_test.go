package mongo

import (
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
	damageRounds = flag.Int("damage", 400, "how many damaged messages TestDamagedMessages sends to each side")
	damageSeed   = flag.Uint64("damage-seed", 1, "seed of TestDamagedMessages")
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

// TestDamagedMessages sends damaged messages to both sides of a gateway. Every connection ends, only complete messages
// reach the server, all memory is given back, and other clients are served.
func TestDamagedMessages(t *testing.T) {
	t.Run("clients", damagedRequests)
	t.Run("servers", damagedReplies)
}

func damagedRequests(t *testing.T) {
	_, tap := between(t)
	s := serve(t, tap.addr, withZstd)
	seeds := whole(dialRaw(t, s.addr))
	r := rand.New(rand.NewPCG(*damageSeed, 0))
	before := runtime.NumGoroutine()
	for i := range *damageRounds {
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

// scriptedServer is a server that replies with bytes set in advance.
type scriptedServer struct {
	addr string
	mu   sync.Mutex
	next []byte
}

func startScriptedServer(t *testing.T) *scriptedServer {
	t.Helper()
	l := listen(t)
	s := &scriptedServer{addr: l.Addr().String()}
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

func (s *scriptedServer) answer(c net.Conn) {
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

func damagedReplies(t *testing.T) {
	server := startScriptedServer(t)
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
	r := rand.New(rand.NewPCG(*damageSeed, 1))
	before := runtime.NumGoroutine()
	for i := range *damageRounds {
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
