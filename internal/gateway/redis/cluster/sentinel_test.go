package cluster

import (
	"errors"
	"net"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
)

// The Sentinel that was reached last is asked first, so that a Sentinel that is off delays one client, not all.
func TestLastSentinelIsAskedFirst(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) endpoint.Upstream {
		return endpoint.Upstream{Network: "unix", Address: filepath.Join(dir, name)}
	}
	listen := func(name string) {
		l, err := net.Listen("unix", filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
	}
	c := &Cluster{cfg: Config{Sentinel: &SentinelConfig{Sentinels: []endpoint.Upstream{at("a"), at("b"), at("c")}}}}
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

// A Sentinel that was cut off during a failover names the former primary. The gateway then asks the others. If too few
// answer, clients stay where they are.
func TestOldAnswersOfSentinels(t *testing.T) {
	const down = -1
	for _, test := range []struct {
		name   string
		epochs []int // of the Sentinels' answers; the gateway knows epoch 5
		want   int   // index of the Sentinel whose answer counts; -1: none
	}{
		{"the same", []int{5, 5, 5}, 0},
		{"a failover", []int{6, 5, 5}, 0},
		{"the first knows of no failover", []int{4, 5, 5}, 1},
		{"the first is down, the second knows of none", []int{down, 4, 6}, 2},
		{"one answers, and knows of none", []int{down, 4, down}, -1},
		{"all are down", []int{down, down, down}, -1},
		{"monitored anew", []int{0, 1, 0}, 1},
		{"monitored anew, and one is down", []int{0, down, 1}, 2},
		{"the only Sentinel, monitored anew", []int{0}, 0},
	} {
		sentinels := make([]endpoint.Upstream, len(test.epochs))
		for i := range sentinels {
			sentinels[i].Address = strconv.Itoa(i)
		}
		c := New(Config{Stats: gateway.NewStats("c", "redis"), Sentinel: &SentinelConfig{Sentinels: sentinels}})
		c.epoch = 5
		a, err := c.newestAnswer(func(up endpoint.Upstream) (sentinelAnswer, error) {
			i, _ := strconv.Atoi(up.Address)
			if test.epochs[i] == down {
				return sentinelAnswer{}, errors.New("down")
			}
			return sentinelAnswer{epoch: uint64(test.epochs[i]), host: up.Address}, nil
		})
		switch {
		case test.want < 0:
			if err == nil {
				t.Errorf("%s: epoch %d of Sentinel %s counts", test.name, a.epoch, a.host)
			}
		case err != nil || a.host != strconv.Itoa(test.want):
			t.Errorf("%s: the answer of Sentinel %q counts (%v), want that of %d", test.name, a.host, err, test.want)
		}
	}
}
