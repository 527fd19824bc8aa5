package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
)

// The ports of servers that are down go to servers that clients need.
func TestPortsOfDeadNodes(t *testing.T) {
	for _, test := range []struct {
		name          string
		sentinel      bool
		first, second string // answers, one after the other, in the form of nodesOf; there are two ports for nodes
		want          string // ids of the members afterwards
		error         string
	}{
		{"a new primary", true, "a+ b-", "a- b- c+", "a c", ""},
		{"a new primary, after others were dead at the start", true, "a- b- c- d+", "b- c- d- e+", "a e", ""},
		{"a new primary that was a replica without a port", true, "a+ b c-", "b- c+ a-", "a c", ""},
		{"a new primary, replicas work", true, "a+ b", "a b c+", "a c", "node b:1: no port is free for another node: increase nodes"},
		{"a new primary, which is down", true, "a+ b", "a b c+-", "a c", "node b:1: no port is free for another node: increase nodes"},
		{"another primary", true, "a+ b", "c+", "a c", ""},
		{"a new replica", true, "a+ b-", "a+ b- c", "a c", ""},
		{"a new replica, the primary is down", true, "a+ b", "a+- b c", "a b", "node c:1: no port is free for another node: increase nodes"},
		{"a new replica, the others work", true, "a+ b", "a+ b c", "a b", "node c:1: no port is free for another node: increase nodes"},
		{"a new replica, which is down", true, "a+ b", "a+ b c-", "a b", ""},
		{"a replica that works again", true, "a+ b- c-", "a+ b- c", "a c", ""},
		{"a new primary of slots", false, "a+ b-", "a+ b- c+", "a c", ""},
		{"a new primary of slots, after a failover", false, "a+ b+", "a+ b- c+", "a c", ""},
		{"a new primary of slots, replicas work", false, "a+ b", "a+ b c+", "a b", "node c:1: no port is free for another node: increase nodes"},
		{"a new replica, a primary of slots is down", false, "a+ b+-", "a+ b+- c", "a b", "node c:1: no port is free for another node: increase nodes"},
		{"a new primary of slots, which is down", false, "a+ b-", "a+ b- c+-", "a c", ""},
	} {
		t.Run(test.name, synced(func(t *testing.T) {
			c := withPorts(t, 2, test.sentinel)
			if err := c.update(nodesOf(test.sentinel, test.first), ""); err != nil {
				t.Errorf("at first: %v", err)
			}
			second := nodesOf(test.sentinel, test.second)
			var err error
			for range 2 { // the second time nothing changes
				time.Sleep(pollPeriod)
				err = c.update(slices.Clone(second), "")
			}
			if got := fmt.Sprint(err); err != nil && got != test.error || err == nil && test.error != "" {
				t.Errorf("%v", err)
			}
			if got := strings.Join(slices.Sorted(maps.Keys(c.members)), " "); got != test.want {
				t.Errorf("gateways for %s, want %s", got, test.want)
			}
			if !test.sentinel {
				return
			}
			view, primary := &View{c: c}, 0
			for _, n := range second { // clients see only addresses of gateways: the entry for the primary and for servers without a port
				m := c.members[n.id]
				want := 6380
				if m != nil && !n.primary {
					want += m.distance
				}
				if a, ok := view.Find(n.ip, n.port); !ok || a.Port != strconv.Itoa(want) {
					t.Errorf("%s is told as %+v, %v, want port %d", n.id, a, ok, want)
				}
				if n.primary {
					primary++
					if got := c.candidates(); len(got) != 1 || got[0] != m {
						t.Errorf("clients are led to %v", got)
					}
				}
			}
			if primary != 1 {
				t.Errorf("%d primaries in the test", primary)
			}
		}))
	}
}

// Clients of the entry are disconnected from a server that is not the primary any more, whether Sentinels still
// list it or not, and from one that has left a cluster.
func TestClientsOfFormerNodes(t *testing.T) {
	for _, test := range []struct {
		name          string
		sentinel      bool
		first, second string
		after         time.Duration // from the first answer to the second
		closed        bool
	}{
		{"the same primary", true, "a+ b", "a+ b", time.Second, false},
		{"the same primary, which is down", true, "a+ b", "a+- b", time.Second, false},
		{"failover", true, "a+ b", "a b+", time.Second, true},
		{"SENTINEL REMOVE and MONITOR", true, "a+ b", "c+", time.Second, true},
		{"a primary whose port another one gets", true, "a b+", "c+", time.Second, true},
		{"a replica of a cluster", false, "a+ b", "a b+", time.Second, false},
		{"a node that one of the others does not list", false, "a+ b", "b+", time.Second, false},
		{"a node that was removed from a cluster", false, "a+ b", "b+", leaveAfter + 1, true},
	} {
		t.Run(test.name, synced(func(t *testing.T) {
			c := withPorts(t, 2, test.sentinel)
			must := func(err error) {
				if err != nil {
					t.Error(err)
				}
			}
			must(c.update(nodesOf(test.sentinel, test.first), ""))
			s, _ := c.newSession(nil).(*entrySession)
			if s == nil || !s.member.node.Load().primary {
				t.Fatalf("%+v", s)
			}
			time.Sleep(test.after)
			must(c.update(nodesOf(test.sentinel, test.second), ""))
			if got := s.Session.(*fakeEntry).closed; got != test.closed {
				t.Errorf("closed: %v", got)
			}
			if next, _ := c.newSession(nil).(*entrySession); next == nil || test.closed && next.member == s.member {
				t.Errorf("a new client is led to %+v", next)
			}
		}))
	}
}

// A node whose gateway has stopped may be back before its clients have left. Its dictionaries are then those of
// the new gateway.
func TestNodeReturnsWhileItLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := withPorts(t, 2, false)
		left, drained := followed{}, make(chan struct{})
		c.cfg.Follower = left
		c.cfg.New = func(Site) Gateway { return &fakeNode{drained: drained} }
		for _, answer := range []string{"a+ b-", "a+ c", "a+ b c-"} { // c takes the port of b, then b that of c
			if err := c.update(nodesOf(false, answer), ""); err != nil {
				t.Error(err)
			}
		}
		close(drained)
		synctest.Wait()
		if !left["c"] || left["b"] || c.members["b"] == nil {
			t.Errorf("dictionaries of %v are given up", left)
		}
	})
}

// A node that drops what is sent to it does not use up the time of the others.
func TestSilentNodeLeavesTimeForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Config{Stats: gateway.NewStats("c", "redis"), Log: nil})
		silent, working := &member{id: "silent", gateway: fakeGateway{}}, &member{id: "working", gateway: fakeGateway{answers: true}}
		for _, m := range []*member{silent, working} {
			m.node.Store(&node{id: m.id, primary: true})
		}
		c.table.Store(&nodeTable{all: []*member{silent, working}})
		for range 2 { // they take turns
			began := time.Now()
			if s := c.newSession(nil); s == nil || time.Since(began) > nodeTime {
				t.Errorf("no session after %v", time.Since(began))
			}
		}
		c.cancel()
	})
}

type followed map[string]bool

func (f followed) Leave(id string) { f[id] = true }
func (f followed) Lead([]string)   {}

// synced returns a test that runs f in a synctest bubble.
func synced(f func(*testing.T)) func(*testing.T) {
	return func(t *testing.T) { synctest.Test(t, f) }
}

// nodesOf returns nodes from their ids, each followed by + for a primary and - for one that is down. Primaries
// of a cluster have slots.
func nodesOf(sentinel bool, text string) (nodes []node) {
	for id := range strings.FieldsSeq(text) {
		n := node{primary: strings.Contains(id, "+"), failed: strings.Contains(id, "-")}
		n.ip, n.port = strings.TrimRight(id, "+-"), "1"
		if n.id = n.ip; n.primary && !sentinel {
			n.slots = []slotRange{{0, 1}}
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// withPorts returns a cluster whose entry has port 6380, with ports for most nodes. All ports are fake.
func withPorts(t *testing.T, most int, sentinel bool) *Cluster {
	ports := &fakePorts{open: map[string]bool{}}
	cfg := Config{
		Nodes: most, Listen: ports.listen, Stats: gateway.NewStats("c", "redis"), Log: slog.New(slog.DiscardHandler),
		New: func(Site) Gateway { return &fakeNode{} },
	}
	if sentinel {
		cfg.Sentinel = &SentinelConfig{}
	}
	c := New(cfg)
	entry, err := ports.listen("10.0.0.9:6380")
	if err != nil {
		t.Fatal(err)
	}
	c.ports.begin(entry)
	t.Cleanup(func() {
		if err := c.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

// fakePorts opens ports, each once at a time, to which no client connects.
type fakePorts struct {
	mu   sync.Mutex
	open map[string]bool
}

func (p *fakePorts) listen(address string) (net.Listener, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open[address] {
		return nil, fmt.Errorf("%s is in use", address)
	}
	p.open[address] = true
	return &fakePort{of: p, address: address, closed: make(chan struct{})}, nil
}

type fakePort struct {
	of      *fakePorts
	address string
	once    sync.Once
	closed  chan struct{}
}

func (l *fakePort) Accept() (net.Conn, error) {
	<-l.closed
	return nil, net.ErrClosed
}

func (l *fakePort) Close() error {
	l.once.Do(func() {
		l.of.mu.Lock()
		defer l.of.mu.Unlock()
		delete(l.of.open, l.address)
		close(l.closed)
	})
	return nil
}

func (l *fakePort) Addr() net.Addr {
	a, _ := net.ResolveTCPAddr("tcp", l.address)
	return a
}

// fakeNode is the gateway of a node that answers.
type fakeNode struct {
	gateway.Server
	drained chan struct{} // Shutdown waits until it is closed; nil: it does not wait
}

func (n *fakeNode) Shutdown(ctx context.Context) error {
	if n.drained != nil {
		<-n.drained
	}
	return n.Server.Shutdown(ctx)
}

func (*fakeNode) SetPolicy(*policy.Policy)                           {}
func (*fakeNode) Connect(context.Context, net.Conn) (Session, error) { return &fakeEntry{}, nil }

type fakeEntry struct {
	fakeSession
	closed bool
}

func (s *fakeEntry) Close() error {
	s.closed = true
	return nil
}

type fakeGateway struct {
	Gateway
	answers bool
}

func (g fakeGateway) Connect(ctx context.Context, _ net.Conn) (Session, error) {
	if g.answers {
		return fakeSession{}, nil
	}
	<-ctx.Done()
	return nil, errors.Join(endpoint.ErrUnreachable, ctx.Err())
}

type fakeSession struct{ Session }
