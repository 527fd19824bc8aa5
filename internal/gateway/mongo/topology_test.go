package mongo

import (
	"strconv"
	"testing"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// A server that calls itself something else each time takes no more memory for that.
func TestMembersAreBounded(t *testing.T) {
	s := serve(t, "127.0.0.1:1", nil)
	var here gateway.Advertised
	for i := range 3 * maxMembers {
		name := "db" + strconv.Itoa(i) + ":27017"
		s.cfg.Topology.learn(name, here)
		s.addresses.warnDirect([]byte(name))
	}
	direct := 0
	s.addresses.direct.Range(func(any, any) bool { direct++; return true })
	if n := len(s.cfg.Topology.members); n != maxMembers || direct != maxMembers {
		t.Errorf("%d members, %d in the log", n, direct)
	}
	s.cfg.Topology.learn("db0:27017", gateway.Advertised{Port: "5"})
	if a, _ := s.cfg.Topology.find([]byte("DB0:27017")); a.Port != "5" {
		t.Error("a member that is known moves no more")
	}
}
