package cluster

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// The Sentinel that was reached last is asked first, so that one that is off delays one client and not each.
func TestLastSentinelIsAskedFirst(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) gateway.Upstream {
		return gateway.Upstream{Network: "unix", Address: filepath.Join(dir, name)}
	}
	listen := func(name string) {
		l, err := net.Listen("unix", filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
	}
	c := &Cluster{cfg: Config{Sentinel: &SentinelConfig{Sentinels: []gateway.Upstream{at("a"), at("b"), at("c")}}}}
	if _, err := c.dialSentinel(t.Context()); err == nil {
		t.Error("reached, although none listens")
	}
	listen("b")
	for range 2 {
		conn, err := c.dialSentinel(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := filepath.Base(conn.RemoteAddr().String()); got != "b" {
			t.Errorf("reached %s", got)
		}
		_ = conn.Close()
		if _, err := net.Dial("unix", filepath.Join(dir, "a")); err != nil {
			listen("a")
		}
	}
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

type fakeGateway struct {
	Gateway
	answers bool
}

type fakeSession struct{ Session }

func (g fakeGateway) Connect(ctx context.Context, _ net.Conn) (Session, error) {
	if g.answers {
		return fakeSession{}, nil
	}
	<-ctx.Done()
	return nil, errors.Join(gateway.ErrUnreachable, ctx.Err())
}
