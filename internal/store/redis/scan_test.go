package redis

import (
	"errors"
	"fmt"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/test/testenv"
)

func TestShareOfCursor(t *testing.T) {
	// As returned by redis-server for a table of 8 buckets.
	last := -1.0
	for i, cursor := range []string{"", "4", "2", "6", "1", "5", "3", "7"} {
		if got := (&Space{}).Share(cursor); got != float64(i)/8 || got <= last {
			t.Errorf("cursor %s: %v", cursor, got)
		}
	}
}

// A restart between two steps of a scan causes no error in the client, whose pool replaces the connections.
// With the run ID of the earlier process the next step is refused; without one it is taken.
func TestPageAfterRestart(t *testing.T) {
	server := testenv.Redis(t, "--appendonly", "yes")
	s, c := openSpace(t, server, "")
	_, err := c.Pipelined(t.Context(), func(p goredis.Pipeliner) error {
		for i := range 100 {
			p.Set(t.Context(), fmt.Sprintf("key:%d", i), "value", 0)
		}
		return nil
	})
	must(t, err)
	run, err := s.node.RunID(t.Context())
	must(t, err)
	page, err := s.Page(t.Context(), "", store.ScanOptions{Count: 10, RunID: run})
	must(t, err)
	if page.Next == "" || len(page.Keys) == 0 {
		t.Fatalf("%+v", page)
	}
	server.Kill()
	must(t, server.Restart())
	for _, test := range []struct {
		run  string
		want error
	}{{run, store.ErrRestarted}, {"", nil}} {
		err := errors.New("not asked")
		testenv.Eventually(t, "it answers", func() bool {
			_, err = s.Page(t.Context(), page.Next, store.ScanOptions{Count: 10, RunID: test.run})
			return !Unavailable(err) || errors.Is(err, store.ErrRestarted)
		})
		if !errors.Is(err, test.want) {
			t.Errorf("with run ID %q: %v", test.run, err)
		}
	}
}

func TestScanLeavesDictionaries(t *testing.T) {
	s, c := openSpace(t, withoutFunctions(t), "")
	d := NewDicts(DictsOptions{Client: c})
	mustPublish(t, d, testDict(t, "scan"))
	must(t, c.Set(t.Context(), "key", "v", 0).Err())
	page, err := s.Page(t.Context(), "", store.ScanOptions{Count: 100})
	must(t, err)
	if page.Next != "" || len(page.Keys) != 1 || string(page.Keys[0]) != "key" {
		t.Errorf("%q", page.Keys)
	}
}
