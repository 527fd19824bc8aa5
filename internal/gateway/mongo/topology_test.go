package mongo

import (
	"log/slog"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
)

// A server that reports another name each time does not take more and more memory.
func TestMembersAreBounded(t *testing.T) {
	s := serve(t, "127.0.0.1:1", nil)
	var here gateway.Advertised
	for i := range 3 * maxMembers {
		name := "db" + strconv.Itoa(i) + ":27017"
		s.cfg.Topology.learn(name, here)
		s.addresses.warnDirect([]byte(name))
	}
	direct := 0
	s.addresses.warned.Range(func(any, any) bool { direct++; return true })
	if n := len(s.cfg.Topology.members); n != maxMembers || direct != maxMembers {
		t.Errorf("%d members, %d in the log", n, direct)
	}
	s.cfg.Topology.learn("db0:27017", gateway.Advertised{Port: "5"})
	if a, _ := s.cfg.Topology.find([]byte("DB0:27017")); a.Port != "5" {
		t.Error("a member that is known moves no more")
	}
}

// A client that connects while a process starts must not be told a member's own name only because the
// member's gateway has not asked the server yet: its driver would connect there directly from then on.
func TestClientsWaitForGatewaysThatBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &Topology{}
		a := addresses{Topology: shared, log: slog.New(slog.DiscardHandler)}
		first, second := shared.expect(), shared.expect()
		heard := make(chan string, 1)
		go func() {
			at, _ := a.addressOf([]byte("db1:27017"), nil)
			heard <- at
		}()
		shared.learn("db0:27017", gateway.Advertised{Host: "proxy", Port: "1"})
		first()
		first() // calling it again has no effect
		synctest.Wait()
		select {
		case at := <-heard:
			t.Fatalf("a client heard %q before the second gateway had asked", at)
		default:
		}
		shared.learn("db1:27017", gateway.Advertised{Host: "proxy", Port: "2"})
		second()
		if at := <-heard; at != "proxy:2" {
			t.Errorf("a client heard %q", at)
		}
		if at, known := a.addressOf([]byte("db2:27017"), nil); known {
			t.Errorf("a member without a gateway is at %q", at)
		}
	})
}

// Clients of other gateways don't wait for a gateway that has ended.
func TestNobodyWaitsForAGatewayThatEnded(t *testing.T) {
	shared := &Topology{}
	g := NewGateway(Config{Name: "mongo", Upstream: endpoint.Upstream{Network: "tcp", Address: "127.0.0.1:1"}, Topology: shared})
	if err := g.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if shared.awaitResolved() {
		t.Error("it is still waited for")
	}
}
