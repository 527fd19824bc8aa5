package limits

import (
	"flag"
	"fmt"
	"io"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// Documented limits, in bytes of peak resident memory.
const (
	limitIdle    = 32 * mb // added by 1,000 idle connections
	limitWasBusy = 48 * mb // the same if they transferred data before
	limitTotal   = 384 * mb
)

// givenBack is the time until garbage of a busier time has been returned to the system.
const givenBack = 4 * time.Second

// TestMain runs more tests in parallel than there are processors: attacks take seconds until they are
// detected.
func TestMain(m *testing.M) {
	flag.Parse()
	if set := flag.Lookup("test.parallel"); set.Value.String() == set.DefValue {
		_ = set.Value.Set("4")
	}
	testenv.Main(m)
}

func start(t *testing.T) (*testenv.RedisServer, *testenv.GatewayServer) {
	t.Helper()
	s := testenv.Redis(t)
	return s, testenv.Gateway(t, testenv.GatewayConfig{Upstream: s.Addr})
}

func TestThousandIdleConnections(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		before func(*client) error
		limit  int64
	}{
		{"that only connected", func(*client) error { return nil }, limitIdle},
		{"that pinged", (*client).ping, limitIdle},
		{"that moved 16 KB", func(c *client) error { return c.roundTrip(document(16<<10, 1)) }, limitWasBusy},
		{"that moved 100 KB", func(c *client) error { return c.roundTrip(document(100<<10, 1)) }, limitWasBusy},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name != "that moved 16 KB" {
				testenv.Full(t)
			}
			idle(t, c.before, c.limit)
		})
	}
}

// idle opens 1,000 connections, calls do on each, and checks the memory that they add.
func idle(t *testing.T, do func(*client) error, limit int64) {
	_, g := start(t)
	if err := mustDial(t, g.Addr).roundTrip(document(100<<10, 1)); err != nil {
		// The codecs' own state does not count as a cost of a connection.
		t.Fatal(err)
	}
	before := memoryOf(t, g.Pid())
	clients := make([]*client, 1000)
	for i := range clients {
		clients[i] = mustDial(t, g.Addr)
	}
	for _, c := range clients {
		if err := do(c); err != nil {
			t.Fatal(err)
		}
	}
	waitForSessions(t, g, len(clients))
	settle(t, g.Pid())
	if limit == limitWasBusy {
		time.Sleep(givenBack)
	}
	after := memoryOf(t, g.Pid())
	t.Logf("idle: before %.1f MB, now %.1f MB, peak %.1f MB", inMB(before.now), inMB(after.now), inMB(after.peak))
	if added := after.now - before.now; added > limit { // not the peak, which comes from the transfers
		t.Errorf("1,000 idle connections cost %.1f MB, the limit is %.0f MB", inMB(added), inMB(limit))
	}
}

// waitForSessions waits until the gateway serves n clients.
func waitForSessions(t *testing.T, g *testenv.GatewayServer, n int) {
	t.Helper()
	for range 100 {
		if int(g.Metric(t, "cinch_connections")) >= n {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("the gateway has fewer than %d connections", n)
}

func (c *client) ping() error {
	if err := c.send([]byte("PING")); err != nil {
		return err
	}
	_, err := c.line()
	return err
}

func (c *client) roundTrip(value []byte) error {
	if err := c.set("idle", value); err != nil {
		return err
	}
	return c.getIs("idle", value)
}

// Half of the clients transfer values that compress, and half values that do not, all at once.
func TestManyClientsMoveLargeValues(t *testing.T) {
	t.Parallel()
	testenv.Full(t)
	const clients, rounds = 256, 2
	_, g := start(t)
	var all errgroup.Group
	for i := range clients {
		value := document(mb, uint64(i))
		if i%2 == 1 {
			value = noise(mb, uint64(i))
		}
		c := mustDial(t, g.Addr)
		all.Go(func() error {
			key := fmt.Sprint("large:", i)
			for range rounds {
				if err := c.set(key, value); err != nil {
					return fmt.Errorf("client %d: %w", i, err)
				}
				if err := c.getIs(key, value); err != nil {
					return fmt.Errorf("client %d: %w", i, err)
				}
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		t.Error(err)
	}
	mustStayUnder(t, g.Pid(), limitTotal)
}

// One reply of 400 MB, or a gigabyte, consists of compressed values. The slow client reads it in small
// pieces with pauses for a while and then disconnects.
func TestThousandLargeValuesInOneReply(t *testing.T) {
	t.Parallel()
	values := codectest.Amount(400, 400, 1000) // their sum exceeds limitTotal
	s, g := start(t)
	value := document(mb, 7)
	fill(t, s, g, values, value)
	request := []string{"MGET"}
	for i := range values - 1 {
		request = append(request, keyOf(i))
	}
	last := []byte(keyOf(values - 1))

	slow := mustDial(t, g.Addr)
	if err := slow.send(last, request...); err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(io.Discard, slow, 100<<10); err != nil {
		t.Fatal(err) // the rest stays unread
	}
	var all errgroup.Group
	for range codectest.Amount(1, 1, 2) {
		c := mustDial(t, g.Addr)
		all.Go(func() error {
			if err := c.send(last, request...); err != nil {
				return err
			}
			return c.valuesAre(values, value)
		})
	}
	if err := all.Wait(); err != nil {
		t.Error(err)
	}
	mustStayUnder(t, g.Pid(), limitTotal)
}

func (c *client) valuesAre(n int, value []byte) error {
	got, err := c.header("*")
	if err != nil || got != n {
		return fmt.Errorf("an array of %d, want %d: %v", got, n, err)
	}
	for i := range n {
		if err := c.bulkIs(value); err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
	}
	return nil
}

func keyOf(i int) string { return fmt.Sprint("large:", i) }

// fill compresses the value once and has the server copy the envelope.
func fill(t *testing.T, s *testenv.RedisServer, g *testenv.GatewayServer, n int, value []byte) {
	t.Helper()
	if err := mustDial(t, g.Addr).set(keyOf(0), value); err != nil {
		t.Fatal(err)
	}
	c := mustDial(t, s.Addr)
	for i := 1; i < n; i++ {
		if err := c.send([]byte(keyOf(i)), "COPY", keyOf(0)); err != nil {
			t.Fatal(err)
		}
		if line, err := c.line(); err != nil || line != ":1" {
			t.Fatalf("COPY: %q, %v", line, err)
		}
	}
	if err := c.send([]byte(keyOf(n-1)), "STRLEN"); err != nil {
		t.Fatal(err)
	}
	if stored, err := c.header(":"); err != nil || stored >= len(value) {
		t.Fatalf("%d bytes are stored for %d: not sealed, %v", stored, len(value), err)
	}
}
