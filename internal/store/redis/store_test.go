package redis

import (
	"slices"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/test/testenv"
)

// Moved distinguishes slots that have stayed, slots that have moved, and a cluster that does not answer. In the
// last case a walk may have missed keys.
func TestMoved(t *testing.T) {
	nodes := testenv.Cluster(t, 2, 0)
	s, err := Open(t.Context(), OpenOptions{Client: goredis.Options{Addr: nodes[0].Addr, MaxRetries: -1, DialerRetries: 1}})
	must(t, err)
	defer s.Close()
	if moved, err := s.Moved(t.Context()); moved || err != nil {
		t.Errorf("all are where they were: %v, %v", moved, err)
	}
	testenv.MoveSlots(t, nodes[0], nodes[1], 0, 9)
	if moved, err := s.Moved(t.Context()); !moved || err != nil {
		t.Errorf("ten slots have moved: %v, %v", moved, err)
	}
	for _, n := range nodes {
		n.Kill()
	}
	if moved, err := s.Moved(t.Context()); moved || err == nil {
		t.Errorf("nothing answers: %v, %v", moved, err)
	}
}

func TestOpenFindsDatabases(t *testing.T) {
	server := testenv.Redis(t)
	for _, db := range []int{0, 3, 11} {
		must(t, connect(t, goredis.Options{Addr: server.Addr, DB: db}).Set(t.Context(), "k", "v", 0).Err())
	}
	s, err := Open(t.Context(), OpenOptions{Client: goredis.Options{Addr: server.Addr}})
	must(t, err)
	defer s.Close()
	var names []string
	for _, sp := range s.Nodes()[0].Spaces() {
		names = append(names, sp.DB())
	}
	if !slices.Equal(names, []string{"0", "3", "11"}) {
		t.Errorf("databases %v", names)
	}
}
