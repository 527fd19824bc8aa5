package pack

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/store/pack"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
	"github.com/cinch-layer/cinch/test/testenv"
)

// late delays the first replacement until a lease has ended, as a network can.
type late struct {
	store.Space
	once sync.Once
	held chan struct{} // closed when the replacement is delayed
	wait func()
}

func (l *late) Replace(ctx context.Context, changes []store.Change) ([]store.Outcome, error) {
	l.once.Do(func() {
		close(l.held)
		l.wait()
	})
	return l.Space.Replace(ctx, changes)
}

// TestCollectedWhilePacking retires a dictionary while a packer holds values compressed with it that are
// not stored yet: the first scan finds none. Values that arrive as late as possible must be found by the
// second scan, and the packer must stop using the dictionary by itself.
func TestCollectedWhilePacking(t *testing.T) {
	t.Parallel()
	const lease = 2 * time.Second
	server := testenv.Redis(t)
	c := connect(t, server.Addr)
	fill(t, c, 3000, 0, 300)
	before := contents(t, c, newSealer(nil))
	x := testDict(t)
	dicts := storeredis.NewDicts(storeredis.DictsOptions{Client: c, Lease: lease, Period: lease / 4})
	must(t, dicts.Publish(t.Context(), x))
	running, stop := context.WithCancel(t.Context())
	defer stop()
	go dicts.Run(running)

	s, err := storeredis.Open(t.Context(), storeredis.OpenOptions{
		Client:    goredis.Options{Addr: server.Addr},
		OnConnect: func(ctx context.Context, c *goredis.Conn) error { return dicts.Ensure(ctx, c, x.Number()) },
	})
	must(t, err)
	defer s.Close()
	space := &late{Space: s.Nodes()[0].Spaces()[0], held: make(chan struct{}), wait: func() {
		for dicts.Ready(x.Number()) {
			time.Sleep(time.Millisecond)
		}
	}}
	rules, err := policy.New(policy.Options{Rules: []policy.Rule{{Setting: codec.Setting{Codec: codec.Zstd, Level: 3, Dict: x.Number()}}}})
	must(t, err)
	ended := make(chan error, 1)
	go func() {
		_, err := pack.Run(t.Context(), pack.Options{
			Targets: []store.Target{{Node: s.Nodes()[0], Space: space}}, Parallel: 1, NoBackoff: true,
			Task: &pack.Seal{Policy: rules, Ready: dicts.Ready, Sealer: envelope.NewSealer(envelope.SealerOptions{Dicts: dicts})},
			Read: store.ReadOptions{Types: store.String}, Unavailable: storeredis.Unavailable,
		})
		ended <- err
	}()
	<-space.held

	operator := storeredis.NewDicts(storeredis.DictsOptions{Client: c})
	scans := 0
	outcomes, err := storeredis.Collect(t.Context(), storeredis.CollectOptions{
		Nodes: []storeredis.CollectNode{{Dicts: operator, Scan: &goredis.Options{Addr: server.Addr}}}, Wait: lease + 3*time.Second,
		Tell: func(format string, args ...any) {
			t.Logf(format, args...)
			if strings.HasPrefix(format, "scanning") {
				scans++
			}
		},
	}, []uint32{x.Number()})
	if err != nil || len(outcomes) != 1 || scans != 2 {
		t.Fatalf("%+v, %v, after %d scans", outcomes, err, scans)
	}
	if out := outcomes[0]; out.Archived || out.Values == 0 {
		t.Errorf("a packer's values were not found: %+v", out)
	}
	if err := <-ended; !errors.Is(err, pack.ErrNoDictionary) || !strings.Contains(err.Error(), fmt.Sprintf("%08x", x.Number())) {
		t.Errorf("the packer went on: %v", err)
	}
	if n := sealed(before, c); n == 0 || n == 3000 {
		t.Errorf("%d of 3000 sealed", n)
	}
	sameContents(t, "afterwards", contents(t, c, storeSealer(c)), before)
}
