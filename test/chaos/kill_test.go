package chaos

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/test/testenv"
)

const writers = 6

// stack is a server, a gateway and the clients that write through it.
type stack struct {
	server  *testenv.RedisServer
	gateway *testenv.GatewayServer
	clients []*writer
	r       *rand.Rand
	acked   int
}

func newStack(t *testing.T, cfg testenv.GatewayConfig, serverArgs ...string) *stack {
	seed := testenv.Seed(t)
	s := &stack{server: testenv.Redis(t, serverArgs...), r: rand.New(rand.NewPCG(seed, 99))}
	cfg.Upstream = s.server.Addr
	s.gateway = testenv.Gateway(t, cfg)
	for i := range writers {
		s.clients = append(s.clients, newWriter(i, seed))
	}
	return s
}

// under runs all clients and calls hit at a random moment. It returns when every client has lost its
// connection.
func (s *stack) under(hit func()) {
	var all sync.WaitGroup
	for _, w := range s.clients {
		all.Go(func() { w.run(s.gateway.Addr) })
	}
	time.Sleep(time.Duration(50+s.r.IntN(300)) * time.Millisecond)
	hit()
	all.Wait()
}

func TestKilledGatewayLosesNothing(t *testing.T) {
	s := newStack(t, testenv.GatewayConfig{Force: true})
	hits := codectest.Amount(1, 2, 8)
	for hit := range hits {
		s.under(s.gateway.Kill)
		if err := s.gateway.Restart(); err != nil {
			t.Fatal(err)
		}
		s.check(t, hit)
	}
	t.Logf("%d units acknowledged, %d gateways killed", s.acked, hits)
}

// The append-only file is written before a reply is sent, so a killed process (unlike a machine without
// power) loses nothing that was acknowledged.
func TestKilledServerLosesNothingAcknowledged(t *testing.T) {
	s := newStack(t, testenv.GatewayConfig{Force: true}, "--appendonly", "yes", "--appendfsync", "no")
	hits := codectest.Amount(1, 2, 6)
	for hit := range hits {
		s.under(s.server.Kill)
		if err := s.server.Restart(); err != nil {
			t.Fatal(err)
		}
		s.check(t, hit)
	}
	t.Logf("%d units acknowledged, %d servers killed", s.acked, hits)
}

// check reads everything, directly and through the gateway, and finds the units that explain it.
func (s *stack) check(t *testing.T, hit int) {
	t.Helper()
	s.settle(t)
	direct := read(t, s.server.Addr)
	sealer := envelope.NewSealer(envelope.SealerOptions{})
	sealed := 0
	for k, v := range direct {
		if !envelope.IsSealed([]byte(v)) {
			continue
		}
		sealed++
		value, err := sealer.Open(nil, []byte(v))
		if err != nil {
			t.Errorf("hit %d: key %s holds %.40q: %v", hit, k, v, err)
		}
		direct[k] = string(value)
	}
	if through := read(t, s.gateway.Addr); differences(direct, through) != "" {
		t.Errorf("hit %d: through the gateway: %s", hit, differences(direct, through))
	}
	if sealed == 0 {
		t.Errorf("hit %d: nothing is sealed", hit)
	}
	for _, w := range s.clients {
		s.acked += w.h.acked
		if err := errors.Join(w.bad, w.unexpected(), w.h.explain(own(direct, w.id))); err != nil {
			t.Errorf("hit %d, client %d: %v", hit, w.id, err)
		}
		w.errs = nil
	}
	if t.Failed() {
		t.FailNow()
	}
}

// settle waits until the server has closed the broken connections: requests that they had sent are still
// executed.
func (s *stack) settle(t *testing.T) {
	c := mustDial(t, s.server.Addr)
	defer c.conn.Close()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if !strings.Contains(text(c.must(t, "CLIENT", "LIST")), "name="+writerName) {
			return
		}
	}
	t.Fatal("the clients' upstream connections do not end")
}

// unexpected returns errors of a client's connection that a crash does not explain.
func (w *writer) unexpected() error {
	for _, e := range w.errs {
		if strings.Contains(e, "EOF") || strings.Contains(e, "reset") || strings.Contains(e, "broken pipe") {
			continue
		}
		return fmt.Errorf("unexpected error: %s", e)
	}
	return nil
}

// read returns all strings and hash fields at addr.
func read(t *testing.T, addr string) map[string]string {
	t.Helper()
	c := mustDial(t, addr)
	defer c.conn.Close()
	all := map[string]string{}
	for id := range writers {
		for _, k := range []string{"a", "b", "c", "z"} {
			key := fmt.Sprintf("w%d:%s", id, k)
			if reply := c.must(t, "GET", key); !strings.HasPrefix(reply, "$-1") {
				all[key] = text(reply)
				if reply[0] == '-' {
					t.Errorf("GET %s: %s", key, reply)
				}
			}
			hash := fmt.Sprintf("h%d", id)
			if reply := c.must(t, "HGET", hash, k); !strings.HasPrefix(reply, "$-1") {
				all[hash+"/"+k] = text(reply)
			}
		}
	}
	return all
}

// own returns the entries that belong to one client.
func own(all map[string]string, id int) map[string]string {
	mine := map[string]string{}
	for k, v := range all {
		if strings.HasPrefix(k, fmt.Sprintf("w%d:", id)) || strings.HasPrefix(k, fmt.Sprintf("h%d/", id)) {
			mine[k] = v
		}
	}
	return mine
}
