package cluster

import (
	"net"
	"slices"
	"testing"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
)

func TestPortsOfSeedsAreKept(t *testing.T) {
	p := ports{reserved: 2, most: 4, taken: map[int]bool{}}
	if got := p.distances(0); !slices.Equal(got, []int{3, 4}) {
		t.Errorf("another node: %v", got)
	}
	if got := p.distances(2); !slices.Equal(got, []int{2, 3, 4}) {
		t.Errorf("the second seed: %v", got)
	}
	p.taken[2], p.taken[3] = true, true
	if got := p.distances(2); !slices.Equal(got, []int{4}) {
		t.Errorf("the second seed, whose port is taken: %v", got)
	}
	p.free(2)
	if got := p.distances(2); !slices.Equal(got, []int{2, 4}) {
		t.Errorf("the second seed again: %v", got)
	}
}

func TestAdvertisedPortsFollowTheEntry(t *testing.T) {
	p := ports{advertise: "gw.example.com:7000", entry: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 6000}}
	if a := p.advertisedAt(3); a.Host != "gw.example.com" || a.Port != "7003" {
		t.Errorf("%+v", a)
	}
	if got := p.at(3); got != 6003 {
		t.Errorf("at 3: %d", got)
	}
}

func TestSeedsAreKnownByAddressOrById(t *testing.T) {
	up := func(host, port string) endpoint.Upstream {
		return endpoint.Upstream{Host: host, Address: net.JoinHostPort(host, port)}
	}
	s := newSeeds([]endpoint.Upstream{up("a", "1"), up("b", "1")})
	if got := s.indexOf(&node{id: "x", ip: "b", port: "1"}); got != 2 {
		t.Errorf("by address: seed %d", got)
	}
	if got := s.indexOf(&node{id: "x", ip: "c", port: "1"}); got != 0 {
		t.Errorf("a stranger: seed %d", got)
	}
	s.set("a:1", []node{{id: "y"}, {id: "x", myself: true}})
	if got := s.indexOf(&node{id: "x", ip: "c", port: "1"}); got != 1 {
		t.Errorf("by id: seed %d", got)
	}
	if left := s.pending(); len(left) != 1 || left[0].Host != "b" {
		t.Errorf("pending: %v", left)
	}
}
