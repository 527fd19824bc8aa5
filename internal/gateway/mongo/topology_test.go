package mongo

import (
	"log/slog"
	"net"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/cinch-layer/cinch/codec"
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

// While a process starts, the gateway of a member may not have asked its server yet. A client that connects then
// must not be told the member's own name: its driver would connect to the member directly from then on.
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
	g := NewGateway(Config{Name: "mongo", Engine: codec.New(codec.Options{}), Upstream: endpoint.Upstream{Network: "tcp", Address: "127.0.0.1:1"}, Topology: shared})
	if err := g.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if shared.awaitResolved() {
		t.Error("it is still waited for")
	}
}

func TestAddressesOfMembers(t *testing.T) {
	a := newParts(t, nil).g.addresses
	local := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 7}
	if _, ok := a.addressOf([]byte("db0:1"), local); ok {
		t.Error("a member is known before it was heard of")
	}
	a.recordMember(helloReply{me: "DB0:1", setName: "rs"})
	if at, ok := a.addressOf([]byte("db0:1"), local); !ok || at != "gateway:27" {
		t.Errorf("%q", at)
	}
	a.own.Store(&gateway.Advertised{Port: "28"})
	a.learnMember("db0:1")
	if at, _ := a.addressOf([]byte("db0:1"), local); at != "10.0.0.1:28" {
		t.Errorf("at a gateway that is known by its port: %q", at)
	}
}
