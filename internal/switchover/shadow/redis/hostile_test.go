package redis

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/shadowtest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// hostile are requests for which the server may disconnect the client.
var hostile = map[string][]byte{
	"no protocol":               []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
	"bytes":                     bytes.Repeat([]byte{0, 255, 13, 10, '*', '$', '-'}, 20_000),
	"a huge array":              []byte("*1000000000\r\n$3\r\nSET\r\n"),
	"a huge text":               []byte("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870911\r\nxxxx"),
	"a length below zero":       []byte("*3\r\n$3\r\nSET\r\n$-5\r\n"),
	"a length without an end":   []byte("*" + strings.Repeat("9", 100_000)),
	"a line without an end":     bytes.Repeat([]byte("x"), 300_000),
	"half a transaction":        []byte("*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET\r\n$6\r\nstolen\r\n$1\r\nx\r\n"),
	"half a request":            []byte("*3\r\n$3\r\nSET\r\n$6\r\nstolen\r\n$10\r\nx"),
	"a pop that is given up":    []byte("*3\r\n$5\r\nBLPOP\r\n$5\r\nqueue\r\n$1\r\n0\r\n"),
	"replies without a request": []byte("+OK\r\n:1\r\n$5\r\nhello\r\n"),
	"nothing":                   nil,
}

// Clients that send garbage and disconnect at any time: other clients are served and mirrored, and memory
// stays within its bound.
func TestHostileClients(t *testing.T) {
	const memory = 128 * shadow.MiB // enough that no other client's bytes are dropped while these wait
	b := newBench(t, func(c *shadow.Config) { c.Memory = memory })
	haveGone := shadowtest.Strangers(t, b.addr, 20, hostile)
	c := b.client(t)
	for i := range 500 {
		if err := c.Incr(t.Context(), fmt.Sprint("n", i%10)).Err(); err != nil {
			t.Fatal(err)
		}
	}
	haveGone()
	if held := b.run.Held(); held > memory*6/5 {
		t.Errorf("%d bytes are held", held)
	}
	b.undisturbed(t, 500)
}

// undisturbed ends a run in which at least least operations were compared, none of them different or lost.
func (b *bench) undisturbed(t *testing.T, least uint64) {
	t.Helper()
	shadowtest.Undisturbed(t, b.run, least)
	same(t, b.production, b.control)
	same(t, b.production, b.test)
	if held := b.run.Held(); held > 64<<10 { // the state of connections that are still open
		t.Errorf("%d bytes are held at the end", held)
	}
}

// Clients that request much and read nothing hold no more than their share, and others continue.
func TestSlowReaders(t *testing.T) {
	const memory = 16 * shadow.MiB
	b := newBench(t, func(c *shadow.Config) { c.Memory = memory })
	c := b.client(t)
	if err := c.Set(t.Context(), "large", strings.Repeat("v", 1<<20), 0).Err(); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		slow, err := net.Dial("tcp", b.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer slow.Close()
		if _, err := slow.Write(bytes.Repeat([]byte("*2\r\n$3\r\nGET\r\n$5\r\nlarge\r\n"), 20)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 300 {
		if err := c.Incr(t.Context(), fmt.Sprint("n", i%10)).Err(); err != nil {
			t.Fatal(err)
		}
		// A piece that does not fit is kept until its connection is given up.
		if held := b.run.Held(); held > memory*6/5 {
			t.Fatalf("%d bytes are held", held)
		}
	}
	r := shadowtest.Finish(t, b.run)
	if c := r.Compared; c.Different > 0 || c.Lost != [2]uint64{} {
		t.Errorf("%s %q %+v", r.Outcome, r.Reasons, c)
	}
}

// Many concurrent clients (five hundred with make full), a storm of connections that are used once, and
// clients that disconnect in the middle of a request.
func TestManyConnections(t *testing.T) {
	b := newBench(t, nil)
	const each = 4
	clients, strangers := codectest.Amount(40, 40, 500), codectest.Amount(20, 20, 100)
	var all sync.WaitGroup
	for n := range clients {
		c := goredis.NewClient(&goredis.Options{Addr: b.addr, PoolSize: 1, MaxRetries: -1, DialTimeout: time.Minute, ReadTimeout: time.Minute})
		t.Cleanup(func() { _ = c.Close() })
		all.Go(func() {
			for i := range each {
				if err := c.Set(t.Context(), fmt.Sprint("key:", n, i), n, 0).Err(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for range 8 {
		all.Go(func() {
			for range strangers {
				if err := shadowtest.Stranger(b.addr, []byte("*1\r\n$4\r\nQUIT\r\n")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	r := shadowtest.Finish(t, b.run)
	if c := r.Compared; r.Outcome == "VOID" || c.Different > 0 || c.Lost != [2]uint64{} || c.Equal+r.Dropped*each < uint64(clients)*each {
		t.Errorf("%s %q %+v, %d dropped", r.Outcome, r.Reasons, c, r.Dropped)
	}
	if r.Dropped == 0 {
		same(t, b.production, b.test)
	}
}

// Every line of servers, as production and as targets.
func TestEachLine(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, l testenv.RedisLine) {
		b := &bench{production: l.Start(t), control: l.Start(t), test: l.Start(t)}
		b.start(t, nil)
		var clients sync.WaitGroup
		for i := range 4 {
			c := b.client(t)
			clients.Go(func() { work(t.Context(), c, fmt.Sprint("own", i, ":"), uint64(i)) })
		}
		clients.Wait()
		if r := b.settle(t); r.Compared.Diverged > 0 || r.Compared.Equal < 500 {
			t.Errorf("%+v", r.Compared)
		}
		same(t, b.production, b.control)
		same(t, b.production, b.test)
	})
}
